"""The arguments that determine what a run computes, and must be the same when it is resumed."""

import json
from collections.abc import Mapping
from typing import Any

# Arguments that set how a run is executed or how long it is. All others determine what it computes,
# and must be the same when it is resumed.
FREE_ON_RESUME = frozenset(
    {
        "epochs",
        "save_freq",
        "logger_kwargs",
        "resume",
        "overwrite",
        "progress",
        "env_fn",
        "vector",
        "num_threads",
        "device",
        "shards",
        "compile",
    }
)


def as_json(record: Any) -> Any:
    """A record as it would come back from a JSON file."""
    from spinup.utils.serialization_utils import convert_json

    return json.loads(json.dumps(convert_json(record), sort_keys=True, allow_nan=False))


def fingerprint(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that determine what a run computes."""
    record = {k: v for k, v in config.items() if k not in FREE_ON_RESUME}
    if record.get("anneal_lr"):
        record["epochs"] = config["epochs"]  # the schedule ends with the run
    found: dict[str, Any] = as_json(record)
    return found
