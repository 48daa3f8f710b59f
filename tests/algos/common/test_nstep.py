"""n-step transitions against their definition, written out episode by episode."""

import json

import numpy as np
import pytest

from spinup.algos.common.nstep import NStep
from spinup.runs.storage.packing import pack, unpack

NAMES = ["obs", "act", "rew", "obs2", "done", "discount"]


def random_streams(rng, num_envs, steps, ends=("terminated", "truncated")):
    """Steps of several streams, one list of dicts each; episodes of 1 to 7 steps."""
    streams = []
    for i in range(num_envs):
        stream, left = [], int(rng.integers(1, 8))
        for t in range(steps):
            left -= 1
            stream.append(
                {
                    "obs": np.array([i, t, 0.0]),
                    "act": np.int64(rng.integers(4)),
                    "rew": float(rng.normal()),
                    # where an episode ends is not where the next one begins
                    "obs2": np.array([i, t + 1, float(left == 0)]),
                    "end": str(rng.choice(ends)) if left == 0 else "",
                }
            )
            left = left or int(rng.integers(1, 8))
        streams.append(stream)
    return streams


def by_definition(stream, n, gamma):
    """The rows of one stream: every step whose n-th successor, or whose end, has been seen."""
    rows = []
    for t in range(len(stream)):
        for m in range(1, n + 1):
            if t + m > len(stream):
                break  # the future is not known yet
            last = stream[t + m - 1]
            if last["end"] or m == n:
                total = sum(gamma**k * stream[t + k]["rew"] for k in range(m))
                done = last["end"] == "terminated"
                rows.append(
                    (stream[t]["obs"], stream[t]["act"], total, last["obs2"], done, gamma**m)
                )
                break
    return rows


def feed(nstep, streams, start=0, stop=None):
    """Every row that comes out of `nstep`, by stream."""
    found = [[] for _ in streams]
    for t in range(start, len(streams[0]) if stop is None else stop):
        now = [stream[t] for stream in streams]
        rows = nstep.add(
            np.array([s["obs"] for s in now]),
            np.array([s["act"] for s in now]),
            np.array([s["rew"] for s in now]),
            np.array([s["obs2"] for s in now]),
            np.array([s["end"] == "terminated" for s in now]),
            [i for i, s in enumerate(now) if s["end"]],
        )
        assert list(rows) in ([], NAMES)
        for row in zip(*rows.values(), strict=True):
            found[int(row[0][0])].append(row)
    return found


def assert_same_rows(found, expected):
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        for x, y in zip(row, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 10])
def test_rows_are_what_the_definition_says(n, num_envs):
    streams = random_streams(np.random.default_rng(n), num_envs, 200)
    found = feed(NStep(n, 0.9, num_envs), streams)
    for rows, stream in zip(found, streams, strict=True):
        assert_same_rows(rows, by_definition(stream, n, 0.9))


def test_three_steps_of_an_episode_that_terminates_and_of_one_that_is_cut():
    for end in ("terminated", "truncated"):
        nstep = NStep(2, 0.5)
        out = []
        for t, r in enumerate([1.0, 2.0, 4.0]):
            ended = [0] if t == 2 else []
            done = [bool(ended) and end == "terminated"]
            out.append(nstep.add([[t]], [t], [r], [[t + 1]], done, ended))
        none, first, rest = out
        assert none == {}
        # the first step has its two rewards after the second one
        assert first["rew"].tolist() == [1 + 0.5 * 2]
        assert (first["obs2"].tolist(), first["done"].tolist()) == ([[2]], [False])
        assert first["discount"].tolist() == [0.25]
        # the end brings the other two, over two steps and over one
        assert rest["obs"].tolist() == [[1], [2]] and rest["act"].tolist() == [1, 2]
        assert rest["rew"].tolist() == [2 + 0.5 * 4, 4]
        assert rest["obs2"].tolist() == [[3], [3]]
        assert rest["discount"].tolist() == [0.25, 0.5]
        assert rest["done"].tolist() == [end == "terminated"] * 2


def test_no_row_crosses_an_episode():
    streams = random_streams(np.random.default_rng(0), 2, 300)
    for rows, stream in zip(feed(NStep(4, 0.9, 2), streams), streams, strict=True):
        for obs, _, _, obs2, _, _ in rows:
            between = stream[int(obs[1]) : int(obs2[1]) - 1]
            assert not any(step["end"] for step in between)


def test_what_is_handed_in_may_be_written_over():
    obs, obs2, act = np.zeros((1, 1)), np.ones((1, 1)), np.array([3])
    nstep = NStep(3, 0.9)
    nstep.add(obs, act, [1.0], obs2, [False])
    obs[:], obs2[:], act[:] = 1.0, 2.0, 4
    rows = nstep.add(obs, act, [1.0], obs2, [False], ended=[0])
    obs2[:] = 9.0
    assert rows["obs"].tolist() == [[0.0], [1.0]] and rows["act"].tolist() == [3, 4]
    assert rows["obs2"].tolist() == [[2.0], [2.0]]


def test_an_episode_that_did_not_go_on_bootstraps_from_where_it_was():
    nstep = NStep(3, 0.5, num_envs=2)
    for t in range(2):
        nstep.add([[t], [t]], [0, 0], [1.0, 1.0], [[t + 1], [t + 1]], [False] * 2)
    # stream 1 starts at 7, although its last step led to 2
    rows = nstep.add([[2], [7]], [0, 0], [1.0, 1.0], [[3], [8]], [False] * 2)
    assert rows["obs"].tolist() == [[0], [0], [1]]
    assert rows["rew"].tolist() == [1.75, 1.5, 1.0]
    assert rows["discount"].tolist() == [0.125, 0.25, 0.5]
    assert rows["obs2"].tolist() == [[3], [2], [2]] and not rows["done"].any()


def test_streams_that_took_no_step_are_left_out():
    nstep = NStep(2, 1.0, num_envs=2)
    assert nstep.add([[0.0]], [0], [5.0], [[1.0]], [False], streams=[1]) == {}
    rows = nstep.add([[1.0]], [0], [1.0], [[2.0]], [True], ended=[1], streams=np.array([1]))
    assert rows["rew"].tolist() == [6.0, 1.0] and rows["done"].tolist() == [True, True]


@pytest.mark.parametrize("stop", [0, 1, 57, 101])
def test_a_saved_accumulator_goes_on_with_the_same_bits(stop):
    streams = random_streams(np.random.default_rng(3), 3, 150)
    whole = feed(NStep(4, 0.97, 3), streams)
    first = NStep(4, 0.97, 3)
    before = feed(first, streams, stop=stop)
    tree, arrays = pack(first.state_dict())
    second = NStep(4, 0.97, 3)
    second.load_state_dict(unpack(json.loads(json.dumps(tree)), arrays))
    feed(first, streams, start=stop)  # must not disturb the other
    after = feed(second, streams, start=stop)
    for a, b, rows in zip(before, after, whole, strict=True):
        assert len(a + b) == len(rows)
        for row, wanted in zip(a + b, rows, strict=True):
            assert [np.asarray(x).tolist() for x in row] == [np.asarray(x).tolist() for x in wanted]
            assert np.asarray(row[1]).dtype.kind == "i"
