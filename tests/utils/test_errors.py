"""The end of a sentence about a misspelled word, and text that a terminal only shows."""

from spinup.utils.errors import nearest, one_line, printable


def test_text_from_elsewhere_is_shown_and_not_obeyed():
    hostile = "a\x1b[2J\x9b31m\x07\r\u202eb\u2066\udc80\x00\n"
    shown = printable(hostile)
    assert shown == r"a\x1b[2J\x9b31m\x07\r\u202eb\u2066\udc80\x00\n"
    assert shown.isprintable()
    assert printable("naïve 速い \u3000 👩\u200d🚀 -") == "naïve 速い \u3000 👩\u200d🚀 -"
    assert one_line(ValueError("two\n lines\x1b[1m")) == r"two lines\x1b[1m"


def test_nearest_ignores_case_and_stays_silent_where_nothing_is_near():
    assert nearest("cartpole-v1", ["Pendulum-v1", "CartPole-v1"]) == "; did you mean CartPole-v1?"
    assert nearest("CARTPOLE-V1", ["Pendulum-v1", "CartPole-v1"]) == "; did you mean CartPole-v1?"
    assert nearest("gama", ["gamma", "lam"]) == "; did you mean gamma?"
    assert nearest("zzzz", ["gamma", "lam"]) == ""
    assert nearest("x", []) == ""


def test_nearest_ignores_leading_dashes():
    assert nearest("--gama", ["--gamma", "--lam"]) == "; did you mean --gamma?"
    assert nearest("--polyak", ["--lam"]) == ""
