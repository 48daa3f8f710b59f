"""How much a reader must open to follow a command, against its budget."""

from benchmarks.reading_cost import ROOT, words_to_call


def test_from_the_words_of_a_command_line_to_ppo_is_a_short_way():
    cost = words_to_call(ROOT)
    assert 20 < cost["functions"] <= 70 and 300 < cost["lines"] <= 900
