"""The end of a sentence about a misspelled word."""

from spinup.utils.errors import nearest


def test_nearest_ignores_case_and_stays_silent_where_nothing_is_near():
    assert nearest("cartpole-v1", ["Pendulum-v1", "CartPole-v1"]) == "; did you mean CartPole-v1?"
    assert nearest("CARTPOLE-V1", ["Pendulum-v1", "CartPole-v1"]) == "; did you mean CartPole-v1?"
    assert nearest("gama", ["gamma", "lam"]) == "; did you mean gamma?"
    assert nearest("zzzz", ["gamma", "lam"]) == ""
    assert nearest("x", []) == ""


def test_nearest_ignores_leading_dashes():
    assert nearest("--gama", ["--gamma", "--lam"]) == "; did you mean --gamma?"
    assert nearest("--polyak", ["--lam"]) == ""
