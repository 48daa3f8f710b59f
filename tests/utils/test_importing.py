"""Objects are found by module and qualified name; what is not there is an ImportError."""

import collections
import json.decoder

import pytest

from spinup.utils.importing import import_object


def test_classes_and_their_members_are_found():
    assert import_object("collections", "OrderedDict") is collections.OrderedDict
    assert import_object("json.decoder", "JSONDecoder.decode") is json.decoder.JSONDecoder.decode


@pytest.mark.parametrize(
    ("module", "qualname"),
    [
        ("no_such_module", "x"),
        ("collections", "no_such_name"),
        ("collections", "OrderedDict.nothing"),
        ("collections", ""),
        ("", "x"),
        (".relative", "x"),
        ("collections\0", "x"),
    ],
)
def test_a_name_that_leads_nowhere_is_an_import_error(module, qualname):
    with pytest.raises(ImportError):
        import_object(module, qualname)
