"""DQN: targets, losses and gradients by hand, exploration, replay, and what it learns."""

import copy
import inspect
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.optim import SGD

from spinup import SpinupError
from spinup.algos.common.prioritized import Priorities
from spinup.algos.pytorch.common.acting import NetPolicy, make_get_action, make_policy
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.dqn import core
from spinup.algos.pytorch.dqn import dqn as module
from spinup.algos.pytorch.dqn.dqn import compute_loss_q, dqn, dqn_update
from spinup.envs import PROBES, adapt_env, make_env
from spinup.utils.seeding import Seeds
from tests.helpers.by_hand import NetworksOf, TableQ, finite_differences
from tests.helpers.probes import observations

OBS_SPACE = spaces.Box(-1, 1, (3,), np.float32)


# ---- a table of action values: observations are the numbers of states -------------------------


ONLINE = [[1.0, 2.0, 0.0], [5.0, 4.0, 3.0], [0.0, 0.0, 7.0]]
TARGET = [[10.0, 0.0, 0.0], [20.0, 80.0, 40.0], [8.0, 16.0, 4.0]]
GAMMA = 0.5
# From state 0 the first row goes to state 1, the others to state 2; the third terminates there, the
# second is only cut.
BATCH = {
    "obs": torch.tensor([0, 0, 0]),
    "act": torch.tensor([1, 0, 2]),
    "rew": torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
    "obs2": torch.tensor([1, 2, 2]),
    "done": torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64),
}
Q = [2.0, 1.0, 0.0]
# The network prefers action 0 in state 1 and action 2 in state 2, the target network action 1.
DOUBLE = [1 + 0.5 * 20, 2 + 0.5 * 4, 3.0]
SINGLE = [1 + 0.5 * 80, 2 + 0.5 * 16, 3.0]


def tables():
    return NetworksOf(q=TableQ(ONLINE)), NetworksOf(q=TableQ(TARGET)).requires_grad_(False)


def errors(backup):
    return np.array(Q) - np.array(backup)


@pytest.mark.parametrize(("double_q", "backup"), [(True, DOUBLE), (False, SINGLE)])
def test_backups_of_double_and_of_plain_q_learning(double_q, backup):
    loss, info, td_error = compute_loss_q(*tables(), BATCH, GAMMA, double_q, "squared")
    np.testing.assert_allclose(info["QVals"], Q)
    np.testing.assert_allclose(td_error, errors(backup))
    assert loss.item() == pytest.approx((errors(backup) ** 2).mean())
    assert not info["QVals"].requires_grad and not td_error.requires_grad


def test_only_termination_ends_the_bootstrap():
    batch = {**BATCH, "obs2": torch.tensor([2, 2, 2]), "done": torch.tensor([0.0, 1.0, 0.0])}
    _, _, td_error = compute_loss_q(*tables(), batch, GAMMA)
    np.testing.assert_allclose(td_error, errors([1 + 0.5 * 4, 2.0, 3 + 0.5 * 4]))


def test_the_discount_of_n_step_transitions_takes_the_place_of_gamma():
    discount = torch.tensor([0.125, 0.25, 0.5], dtype=torch.float64)
    _, _, td_error = compute_loss_q(*tables(), {**BATCH, "discount": discount}, GAMMA)
    np.testing.assert_allclose(td_error, errors([1 + 0.125 * 20, 2 + 0.25 * 4, 3.0]))


def test_the_huber_loss_is_quadratic_up_to_one_and_linear_beyond():
    batch = {**BATCH, "rew": torch.tensor([2.25, -1.5, -1.0], dtype=torch.float64)}
    batch["done"] = torch.ones(3, dtype=torch.float64)  # errors: -0.25, 2.5, 1
    loss, _, _ = compute_loss_q(*tables(), batch, GAMMA)
    assert loss.item() == pytest.approx((0.25**2 / 2 + (2.5 - 0.5) + 0.5) / 3)
    loss, _, _ = compute_loss_q(*tables(), batch, GAMMA, loss="squared")
    assert loss.item() == pytest.approx((0.25**2 + 2.5**2 + 1) / 3)


@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_weights_multiply_the_losses_of_their_rows_and_not_the_errors(loss):
    weight = np.array([0.5, 1.0, 0.25])
    rows = [{k: x[i : i + 1] for k, x in BATCH.items()} for i in range(3)]
    alone = [compute_loss_q(*tables(), row, 0.5, loss=loss)[0].item() for row in rows]
    batch = {**BATCH, "weight": torch.as_tensor(weight)}
    found, _, td_error = compute_loss_q(*tables(), batch, 0.5, loss=loss)
    assert found.item() == pytest.approx(np.dot(alone, weight) / 3)
    np.testing.assert_allclose(td_error, errors(DOUBLE))


def test_the_gradient_reaches_the_taken_actions_and_nothing_else():
    ac, ac_targ = tables()
    loss, _, _ = compute_loss_q(ac, ac_targ.requires_grad_(True), BATCH, GAMMA, loss="squared")
    grad, targ = torch.autograd.grad(loss, [ac.q.values, ac_targ.q.values], allow_unused=True)
    expected = np.zeros((3, 3))
    expected[0, [1, 0, 2]] = 2 * errors(DOUBLE) / 3
    np.testing.assert_allclose(grad, expected)
    assert targ is None


@pytest.mark.parametrize("dueling", [False, True])
def test_gradients_of_the_default_networks_equal_finite_differences(dueling):
    torch.manual_seed(1)
    make = [
        core.MLPQNetwork(OBS_SPACE, spaces.Discrete(3), (5, 4), nn.Tanh, dueling).double()
        for _ in range(2)
    ]
    batch = {k: torch.randn(6, 3, dtype=torch.float64) for k in ("obs", "obs2")}
    batch["act"] = torch.tensor([0, 1, 2, 0, 1, 2])
    batch["rew"], batch["weight"] = torch.randn(6).double(), torch.rand(6).double()
    batch["done"] = torch.tensor([0.0, 1, 0, 0, 1, 0], dtype=torch.float64)

    def loss():
        return compute_loss_q(*make, batch, 0.9)[0]

    grads = torch.autograd.grad(loss(), list(make[0].parameters()))
    found = np.concatenate([g.numpy().reshape(-1) for g in grads])
    np.testing.assert_allclose(found, finite_differences(loss, make[0]), atol=1e-7)


# ---- the update ----------------------------------------------------------------------------------


def test_an_update_is_one_gradient_step_and_a_copy_into_the_target_network():
    ac, ac_targ = tables()
    info, td_error = dqn_update(ac, ac_targ, SGD(ac.parameters(), 0.3), BATCH, True, GAMMA)
    expected = np.array(ONLINE)
    expected[0, [1, 0, 2]] -= 0.3 * np.clip(errors(DOUBLE), -1, 1) / 3  # the slope of Huber's loss
    np.testing.assert_allclose(ac.q.values.detach(), expected)
    assert torch.equal(ac_targ.q.values, ac.q.values)  # the copy is taken after the step
    np.testing.assert_allclose(td_error, errors(DOUBLE))
    assert list(info) == ["QVals", "LossQ"] and not info["LossQ"].requires_grad


def test_the_target_network_stands_still_between_two_updates_of_it():
    ac, ac_targ = tables()
    dqn_update(ac, ac_targ, SGD(ac.parameters(), 0.3), BATCH, update_target=False)
    assert ac_targ.q.values.tolist() == TARGET


def test_polyak_moves_the_target_network_part_of_the_way():
    ac, ac_targ = tables()
    dqn_update(ac, ac_targ, SGD(ac.parameters(), 0.0), BATCH, polyak=0.9)
    np.testing.assert_allclose(
        ac_targ.q.values, 0.9 * np.array(TARGET) + 0.1 * np.array(ONLINE), rtol=1e-12
    )


@pytest.mark.parametrize(("longest", "length"), [(0.1, 0.1), (1e3, None)])
def test_a_long_gradient_is_clipped_and_a_short_one_is_not(longest, length):
    ac, ac_targ = tables()
    args = SGD(ac.parameters(), 1.0), BATCH, False, GAMMA
    dqn_update(ac, ac_targ, *args, loss="squared", max_grad_norm=longest)
    step = np.array(ONLINE) - ac.q.values.detach().numpy()
    full = 2 * errors(DOUBLE) / 3
    scale = 1.0 if length is None else length / np.linalg.norm(full)
    np.testing.assert_allclose(step[0, [1, 0, 2]], scale * full, rtol=1e-4)


def test_an_update_leaves_the_batch_as_it_was():
    before = copy.deepcopy(BATCH)
    ac, ac_targ = tables()
    dqn_update(ac, ac_targ, Adam(ac.parameters(), lr=1e-3), BATCH)
    assert all(torch.equal(before[k], BATCH[k]) for k in BATCH)


# ---- networks ------------------------------------------------------------------------------------


def test_values_may_be_negative_and_every_layer_has_its_width():
    torch.manual_seed(0)
    for dueling in (False, True):
        ac = core.MLPQNetwork(OBS_SPACE, spaces.Discrete(2), (7, 5), dueling=dueling)
        with torch.no_grad():
            assert (ac.q(torch.randn(200, 3)) < 0).any()
    widths = [m.out_features for m in ac.modules() if isinstance(m, nn.Linear)]
    assert widths == [7, 5, 1, 5, 2]
    plain = core.MLPQNetwork(OBS_SPACE, spaces.Discrete(2), (7, 5))
    assert [m.out_features for m in plain.modules() if isinstance(m, nn.Linear)] == [7, 5, 2]


def test_dueling_values_are_the_value_plus_centered_advantages():
    torch.manual_seed(0)
    q = core.MLPQNetwork(OBS_SPACE, spaces.Discrete(4), (6, 5), dueling=True).q
    obs = torch.randn(10, 3)
    with torch.no_grad():
        h = torch.relu(q.net[0](obs))
        v = q.v_net[2](torch.relu(q.v_net[0](h)))
        a = q.a_net[2](torch.relu(q.a_net[0](h)))
        torch.testing.assert_close(q(obs), v + a - a.mean(1, keepdim=True))
        torch.testing.assert_close(q(obs).mean(1, keepdim=True), v)
        torch.testing.assert_close(q(obs[0]), q(obs)[0])  # one observation, too


@pytest.mark.parametrize("hidden_sizes", [(), (6,), (6, 5), (4, 6, 5)])
@pytest.mark.parametrize("dueling", [False, True])
def test_it_acts_with_the_same_values_in_numpy_as_in_torch(dueling, hidden_sizes):
    space = spaces.Box(-1, 1, (2, 3), np.float32)
    torch.manual_seed(2)
    ac = core.MLPQNetwork(space, spaces.Discrete(4), hidden_sizes, nn.ReLU, dueling)
    policy = make_policy(ac)
    assert isinstance(policy, NetPolicy)
    obs = np.random.default_rng(0).normal(size=(50, 2, 3)).astype(np.float32)
    with torch.no_grad():
        values = ac.q(torch.as_tensor(obs)).numpy()
    np.testing.assert_allclose(policy.net(obs), values, atol=1e-5)
    best = values.argmax(1).tolist()
    assert policy(obs, None)[0].tolist() == best
    assert [int(make_get_action(ac)(o)) for o in obs] == best  # greedy without being told to
    assert ac.act(torch.as_tensor(obs)).tolist() == best


def test_taking_over_the_weights_draws_from_no_generator():
    ac = core.MLPQNetwork(OBS_SPACE, spaces.Discrete(2), (4,), dueling=True)
    policy, before = make_policy(ac), torch.get_rng_state()
    policy.renew()
    assert torch.equal(torch.get_rng_state(), before)


# ---- exploration ---------------------------------------------------------------------------------

SMALL = {
    "steps_per_epoch": 60,
    "batch_size": 8,
    "start_steps": 20,
    "update_after": 20,
    "update_every": 5,
    "updates_per_step": 0.4,
    "replay_size": 1000,
    "num_test_episodes": 0,
}


def test_epsilon_falls_in_a_straight_line_over_the_steps_taken(train):
    run = train("dqn", "CartPole-v1", **SMALL, epochs=4, eps_start=0.9, eps_end=0.1, eps_steps=160)
    expected = [0.9 - 0.8 * 60 / 160, 0.9 - 0.8 * 120 / 160, 0.1, 0.1]
    assert [row["Epsilon"] for row in run.rows] == pytest.approx(expected)


def test_evaluation_is_greedy_and_changes_nothing_in_training(train):
    settings = {**SMALL, "epochs": 3, "eps_steps": 200}
    without = train("dqn", "CartPole-v1", **settings)
    tested = train("dqn", "CartPole-v1", **{**settings, "num_test_episodes": 3})
    columns = set(without.rows[0])
    assert {"Epsilon", "LossQ", "AverageQVals", "AverageEpRet"} <= columns
    assert [{k: row[k] for k in columns} for row in tested.rows] == without.rows
    assert "AverageTestEpRet" in tested.rows[0]


class Watched(core.MLPQNetwork):
    """Counts how often it is asked to act, and always prefers the last action."""

    asked = 0

    def act(self, obs):  # not `samples_pi`, so it is really called
        type(self).asked += 1
        return np.array(self.action_space.n - 1)


class Recorded(gym.Wrapper):
    """Keeps the actions of every environment made."""

    actions: list[list[int]] = []

    def __init__(self, env):
        super().__init__(env)
        self.mine = []
        Recorded.actions.append(self.mine)

    def step(self, action):
        self.mine.append(int(action))
        return super().step(action)


def test_exactly_start_steps_actions_are_random_and_tests_are_greedy(train, monkeypatch):
    monkeypatch.setattr(Watched, "asked", 0)
    monkeypatch.setattr(Recorded, "actions", [])
    settings = {**SMALL, "start_steps": 33, "num_test_episodes": 2, "max_ep_len": 10}
    train(
        "dqn",
        lambda: Recorded(gym.make("CartPole-v1")),
        actor_critic=Watched,
        ac_kwargs={"hidden_sizes": (4,)},
        **settings,
        eps_start=0.0,
        eps_end=0.0,
        eps_steps=1,
    )
    training, tests = Recorded.actions
    assert len(training) == 60 and set(training[:33]) == {0, 1} and set(training[33:]) == {1}
    assert len(tests) >= 10 and set(tests) == {1}
    assert Watched.asked == 60 - 33 + len(tests)


def test_tests_are_greedy_even_while_every_training_action_is_random(train, monkeypatch):
    monkeypatch.setattr(Recorded, "actions", [])
    settings = {**SMALL, "num_test_episodes": 2, "max_ep_len": 10}
    kwargs = {"actor_critic": Watched, "ac_kwargs": {"hidden_sizes": (4,)}}
    env_fn = lambda: Recorded(gym.make("CartPole-v1"))  # noqa: E731
    train("dqn", env_fn, **kwargs, **settings, eps_start=1.0, eps_end=1.0)
    training, tests = Recorded.actions
    assert set(training[20:]) == {0, 1} and set(tests) == {1}


# ---- replay --------------------------------------------------------------------------------------


def fake_run(num_envs=1, seed=0):
    tracked = {}
    return SimpleNamespace(
        streams=[SimpleNamespace(num_envs=num_envs, frame_stack=1)],
        observation_space=spaces.Box(-1, 1, (1,), np.float32),
        action_space=spaces.Discrete(3),
        config={},
        seeds=Seeds(seed),
        device=torch.device("cpu"),
        planned_steps=100,
        track=tracked.update,
        tracked=tracked,
    )


def store(replay, t, r, done=False, ended=(), took=None):
    o, o2 = np.array([[t]], np.float32), np.array([[t + 1]], np.float32)
    replay.store(o, np.array([t % 3]), np.array([r]), o2, np.array([done]), ended, took)


def test_actions_are_stored_and_replayed_as_integers():
    replay = core.Replay(fake_run(), 10)
    for t in range(5):
        store(replay, t, 1.0)
    assert replay.buffer.ring.data["act"].dtype == np.int64
    (batch,) = replay.sample_batches(1, 20)
    assert batch["act"].dtype == torch.int64 and batch["act"].shape == (20,)
    assert torch.equal(batch["act"], batch["obs"][:, 0].long() % 3)
    assert set(batch) == {"obs", "act", "rew", "obs2", "done"}


def test_replay_of_n_steps_holds_what_the_accumulator_gives():
    replay = core.Replay(fake_run(), 10, n_step=2, gamma=0.5)
    store(replay, 0, 1.0)
    assert len(replay) == 0  # its return is not complete yet
    store(replay, 1, 2.0)
    store(replay, 2, 4.0, done=True, ended=[0])
    data = {k: x[: len(replay.buffer)].tolist() for k, x in replay.buffer.ring.data.items()}
    assert data["obs"] == [[0], [1], [2]] and data["obs2"] == [[2], [3], [3]]
    assert data["rew"] == [2, 4, 4] and data["discount"] == [0.25, 0.25, 0.5]
    assert data["done"] == [False, True, True] and data["act"] == [0, 1, 2]
    (batch,) = replay.sample_batches(1, 8)
    assert batch["discount"].dtype == torch.float32


def test_n_steps_know_which_environment_a_row_is_of():
    replay = core.Replay(fake_run(num_envs=2), 10, n_step=2, gamma=0.5)
    store(replay, 0, 1.0, took=np.array([False, True]))
    store(replay, 1, 2.0, ended=[1], took=np.array([False, True]))
    assert replay.buffer.ring.data["rew"][:2].tolist() == [2.0, 2.0]
    store(replay, 7, 3.0, took=np.array([True, False]))
    assert len(replay.buffer) == 2


def test_a_batch_by_priority_comes_with_places_and_weights_and_errors_come_back():
    replay = core.Replay(fake_run(), 4, prio_alpha=1.0)
    for t in range(4):
        store(replay, t, float(t))
    for batch in replay.sample_batches(3, 4, beta=1.0):
        # the priorities of one batch are those that the errors of the one before left
        order = torch.as_tensor(batch["index"])
        assert torch.equal(batch["rew"], order.float())
        p = replay.priorities.tree.get(batch["index"]) / replay.priorities.tree.total
        np.testing.assert_allclose(batch["weight"], p.min() / p, rtol=1e-6)
        assert batch["weight"].dtype == torch.float32
        replay.update_priorities(batch, torch.where(order == 2, 3.0, -0.5))
    np.testing.assert_allclose(replay.priorities.tree.get(np.arange(4)), [0.5, 0.5, 3, 0.5], 1e-5)
    store(replay, 4, 9.0)  # over the oldest one
    next(replay.sample_batches(1, 4))
    np.testing.assert_allclose(replay.priorities.tree.get([0]), [3.0], 1e-5)


def test_everything_that_replay_is_made_of_is_tracked():
    run = fake_run()
    core.Replay(run, 10, n_step=3, prio_alpha=0.5)
    assert set(run.tracked) == {"buffer", "nstep", "priorities"}


def test_errors_of_the_batch_become_priorities_in_training(train, monkeypatch):
    seen, learned = [], []

    class Watching(Priorities):
        def sample(self, n, rows, beta, rng):
            seen.append((n, rows, beta))
            return super().sample(n, rows, beta, rng)

        def update(self, index, error):
            assert len(index) == len(error) == 8 and np.abs(error).max() > 0
            learned.append(len(seen))
            super().update(index, error)

    monkeypatch.setattr(core, "Priorities", Watching)
    settings = {**SMALL, "prioritized": True, "prio_beta": 0.4, "prio_beta_steps": 80}
    train("dqn", "CartPole-v1", **settings, n_step=1, epochs=2)
    assert [n for n, _, _ in seen] == [8] * 42
    assert learned == list(range(1, 43))  # the errors of a batch before the next one is drawn
    assert [rows for _, rows, _ in seen][::2] == list(range(20, 121, 5))
    # beta is that of the step before, as epsilon is
    np.testing.assert_allclose(seen[0][2], 0.4 + 0.6 * 19 / 80)
    assert seen[-1][2] == 1.0


# ---- a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 7, 100])
def test_the_target_network_is_updated_every_so_many_gradient_steps(train, monkeypatch, every):
    calls, steps = [], []

    def polyak_update(ac, ac_targ, polyak):
        calls.append((len(steps), polyak))

    class Counted(Adam):
        def step(self, closure=None):
            steps.append(self)
            return super().step(closure)

    monkeypatch.setattr(module, "polyak_update", polyak_update)
    monkeypatch.setattr(module, "Adam", Counted)
    train("dqn", "CartPole-v1", **SMALL, epochs=2, target_update_every=every, polyak=0.25)
    assert len(steps) == 42  # 2 in every 5 steps, from 20 to 120
    assert calls == [(i, 0.25) for i in range(1, 43) if i % every == 0]


def test_the_learning_rate_falls_to_zero_when_asked(train, monkeypatch):
    rates = []

    class Watched(Adam):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    monkeypatch.setattr(module, "Adam", Watched)
    train("dqn", "CartPole-v1", **SMALL, epochs=4, anneal_lr=True, q_lr=0.01)
    assert sorted(set(rates), reverse=True) == pytest.approx([0.01, 0.0075, 0.005, 0.0025])
    rates.clear()
    train("dqn", "CartPole-v1", **SMALL, epochs=2, q_lr=0.01)  # it is the default
    assert sorted(set(rates)) == pytest.approx([0.005, 0.01])
    rates.clear()
    train("dqn", "CartPole-v1", **SMALL, epochs=2, q_lr=0.01, anneal_lr=False)
    assert set(rates) == {0.01}


def test_every_option_reaches_the_update(train, monkeypatch):
    seen = []

    def update(*args, **kwargs):
        seen.append(inspect.signature(dqn_update).bind(*args, **kwargs).arguments)
        return dqn_update(*args, **kwargs)

    monkeypatch.setattr(module, "dqn_update", update)
    options = {"gamma": 0.7, "polyak": 0.1, "double_q": False, "loss": "squared"}
    options["max_grad_norm"] = 5.0
    kwargs = {"hidden_sizes": (8,), "dueling": True}
    run = train("dqn", "CartPole-v1", **SMALL, **options, n_step=3, ac_kwargs=kwargs)
    assert {k: seen[-1][k] for k in options} == options
    assert kwargs == {"hidden_sizes": (8,), "dueling": True}
    assert isinstance(run.ac.q, core.MLPDuelingQ)
    discounts = {round(float(x), 6) for batch in seen for x in batch["batch"]["discount"]}
    assert discounts <= {0.7, 0.49, 0.343} and 0.343 in discounts


class OwnNetwork(nn.Module):
    """What a user writes: `q` and `act`."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.q = nn.Linear(observation_space.shape[0], int(action_space.n))

    def act(self, obs):
        with torch.no_grad():
            return self.q(obs).argmax(-1).numpy()


def test_a_users_own_network_trains(train):
    run = train(
        "dqn",
        "CartPole-v1",
        actor_critic=OwnNetwork,
        **{**SMALL, "num_test_episodes": 1},
        num_envs=3,
    )
    assert isinstance(run.ac, OwnNetwork) and np.isfinite(run.rows[-1]["LossQ"])


WRONG = [
    ({"loss": "mse"}, "'huber' or 'squared'"),
    ({"eps_end": 1.5}, "eps_end"),
    ({"eps_start": -0.1}, "eps_start"),
    ({"polyak": 2}, "polyak"),
    ({"prio_alpha": -1}, "prio_alpha"),
    ({"prio_beta": 1.2}, "prio_beta"),
    ({"n_step": 0}, "n_step"),
    ({"n_step": 1.5}, "n_step"),
    ({"n_step": float("nan")}, "n_step"),
    ({"target_update_every": 0}, "target_update_every"),
    ({"eps_steps": 0}, "eps_steps"),
    ({"prio_beta_steps": 0}, "prio_beta_steps"),
    ({"max_grad_norm": 0.0}, "max_grad_norm"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[str(w) for w, _ in WRONG])
def test_wrong_arguments_end_before_anything_is_created(tmp_path, wrong, said):
    folder = tmp_path / "run"
    with pytest.raises(SpinupError, match=said):
        dqn(
            lambda: make_env("CartPole-v1"),
            **{"steps_per_epoch": 10, "epochs": 1, **wrong},
            logger_kwargs={"output_dir": str(folder)},
        )
    assert not folder.exists()


def test_continuous_actions_are_refused(train):
    with pytest.raises(SpinupError, match="Discrete"):
        train("dqn", "Pendulum-v1")


# ---- learning ------------------------------------------------------------------------------------

LEARN = {
    "ac_kwargs": {"hidden_sizes": (32,)},
    "gamma": 0.5,
    "q_lr": 0.02,
    "steps_per_epoch": 150,
    "batch_size": 32,
    "start_steps": 60,
    "update_after": 60,
    "update_every": 15,
    "updates_per_step": 1.0,
    "target_update_every": 20,
    "polyak": 0.0,
    "n_step": 1,
    "eps_end": 0.2,
    "eps_steps": 200,
    "anneal_lr": True,
    "epochs": 4,
    "num_test_episodes": 0,
    "max_ep_len": 100,
}
# Everything else that DQN can be, at once.
OTHER = {
    "ac_kwargs": {"hidden_sizes": (16, 16), "dueling": True},
    "double_q": False,
    "loss": "squared",
    "n_step": 3,
    "prioritized": True,
    "polyak": 0.9,
    "target_update_every": 2,
    "max_grad_norm": 10.0,
    "num_envs": 3,
}
PLAIN = [(p, {}) for p in PROBES if p.actions.startswith("Discrete")]
# Ends of both kinds within n steps, discounting, and actions that do not start at 0.
TOLD = ("Truncation-v0", "Termination-v0", "TwoStep-v0", "ActionObservationDiscreteFrom5-v0")
EVERYTHING = [(p, OTHER) for p, _ in PLAIN if p.id.removeprefix("spinup/Probe") in TOLD]


@pytest.mark.parametrize(
    ("probe", "options"),
    [*PLAIN, *EVERYTHING],
    ids=[p.id for p, _ in PLAIN] + [f"{p.id}, every option" for p, _ in EVERYTHING],
)
def test_a_probe_is_learned(train, probe, options):
    run = train("dqn", probe.id, **{**LEARN, **options})
    env = make_env(probe.id)
    get_action = make_get_action(run.ac, True, action_space=adapt_env(env).action_space)
    start = int(env.action_space.start)
    for o in observations(probe.id):
        values = run.ac.q(torch.as_tensor(o)).detach().numpy()
        true = env.unwrapped.true_value(o, LEARN["gamma"])
        assert values.max() == pytest.approx(true, abs=0.1), f"max Q({o})"
        if probe.learns_action:
            assert int(get_action(o)) + start == env.unwrapped.optimal_action(o)
            assert values.min() == pytest.approx(-1, abs=0.1)
