"""PPO: losses by hand, gradients against formulas, and the steps of an update."""

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.optim import SGD

from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.ppo import core
from spinup.algos.pytorch.ppo import ppo as module
from spinup.algos.pytorch.ppo.ppo import compute_loss_pi, compute_loss_v, ppo_update
from spinup.parallel.mpi import Shards
from spinup.utils.errors import SpinupError
from tests.helpers.by_hand import TableAC, assert_gradients, score, table_batch

ONE = Shards(1)
PROBS = [[0.5, 0.5], [0.25, 0.75]]
OBS, ACT, ADV = [0, 0, 1, 1], [0, 1, 0, 1], [1.0, -1.0, 2.0, -2.0]
RATIO = [2.0, 2.0, 0.5, 0.9]
P_OLD = [0.5 / 2, 0.5 / 2, 0.25 / 0.5, 0.75 / 0.9]
SPACES = [
    spaces.Discrete(3),
    spaces.Box(-1, 1, (2,)),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(2),
]


def optimizers(ac, lr=1e-2, cls=Adam):
    return cls(ac.pi.parameters(), lr=lr), cls(ac.v.parameters(), lr=lr)


def bits(net):
    return [p.detach().clone() for p in net.parameters()]


def same(net, before):
    return all(torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True))


# ---- losses ----------------------------------------------------------------------------------


def test_the_clipped_objective_of_four_samples_by_hand():
    # ratio * adv: 2, -2, 1, -1.8; clipped ratio * adv: 1.2, -1.2, 1.6, -1.8 (clip to 0.8 .. 1.2)
    # the smaller of both: 1.2, -2, 1, -1.8; their mean is -0.4
    batch = table_batch(OBS, ACT, ADV, p_old=P_OLD)
    loss, info = compute_loss_pi(TableAC(PROBS), batch, clip_ratio=0.2)
    assert float(loss.detach()) == pytest.approx(0.4, rel=1e-12)
    assert float(info["ClipFrac"]) == 0.75
    kl = np.mean([r - 1 - math.log(r) for r in RATIO])
    assert float(info["KL"].detach()) == pytest.approx(kl, rel=1e-12)
    entropies = [math.log(2), -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))]
    assert float(info["Entropy"].detach()) == pytest.approx(np.mean(entropies), rel=1e-12)


def test_the_clipped_branch_has_the_advantage_in_it():
    # one sample whose ratio is far above the clip: the objective is 1.2 * adv, not 1.2
    batch = table_batch([0], [0], [10.0], p_old=[0.1])
    loss, _ = compute_loss_pi(TableAC(PROBS), batch, clip_ratio=0.2)
    assert float(loss.detach()) == pytest.approx(-12.0, rel=1e-12)


def test_the_entropy_bonus_is_subtracted_from_the_loss():
    batch = table_batch(OBS, ACT, ADV, p_old=P_OLD)
    ac = TableAC(PROBS)
    plain, info = compute_loss_pi(ac, batch, 0.2)
    bonus, _ = compute_loss_pi(ac, batch, 0.2, ent_coef=0.5)
    assert float((plain - bonus).detach()) == pytest.approx(float(info["Entropy"].detach()) / 2)


def test_the_value_loss_of_three_samples_by_hand():
    ac = TableAC(PROBS, values=[1.0, -2.0])
    batch = table_batch([0, 1, 1], [0, 0, 0], [0, 0, 0], ret=[3.0, -2.0, 1.0])
    assert float(compute_loss_v(ac, batch).detach()) == pytest.approx((4 + 0 + 9) / 3)


def test_value_clipping_by_hand():
    # values 1, 1, 1; old values 0, 0.9, 3; clip 0.5 -> clipped values 0.5, 1, 2.5
    # errors against returns 2, 2, 1: plain 1, 1, 0; clipped 2.25, 1, 2.25; the larger of each
    ac = TableAC(PROBS, values=[1.0, 1.0])
    batch = table_batch([0, 0, 0], [0] * 3, [0] * 3, ret=[2.0, 2.0, 1.0], val=[0.0, 0.9, 3.0])
    loss = compute_loss_v(ac, batch, clip_vf=0.5)
    assert float(loss.detach()) == pytest.approx((2.25 + 1 + 2.25) / 3)


# ---- gradients -------------------------------------------------------------------------------


def test_policy_gradient_is_the_formula_of_the_clipped_objective():
    ac = TableAC(PROBS)
    loss, _ = compute_loss_pi(ac, table_batch(OBS, ACT, ADV, p_old=P_OLD), 0.2)
    loss.backward()
    # the first sample is clipped, the others follow ratio * adv * (onehot - p)
    weight = np.array([0.0, 2 * -1.0, 0.5 * 2.0, 0.9 * -2.0])
    want = -np.mean(weight[:, None, None] * score(PROBS, OBS, ACT), axis=0)
    np.testing.assert_allclose(ac.pi.logits.grad, want, rtol=1e-12)


def test_entropy_gradient_is_its_formula():
    ac = TableAC(PROBS)
    batch = table_batch(OBS, ACT, [0.0] * 4, p_old=P_OLD)
    compute_loss_pi(ac, batch, 0.2, ent_coef=1.0)[0].backward()
    p = np.array(PROBS)
    entropy = -(p * np.log(p)).sum(-1, keepdims=True)
    want = 0.5 * p * (np.log(p) + entropy)  # each state is half of the batch
    np.testing.assert_allclose(ac.pi.logits.grad, want, atol=1e-12)


@pytest.mark.parametrize("space", SPACES, ids=lambda s: type(s).__name__)
def test_gradients_of_networks_equal_finite_differences(mlp_batch, space):
    ac, batch = mlp_batch(space, shift=0.05)

    def pi_loss():
        return compute_loss_pi(ac, batch, clip_ratio=0.05, ent_coef=0.1)[0]

    def v_loss():
        return compute_loss_v(ac, batch, clip_vf=0.05)

    for loss, net in ((pi_loss, ac.pi), (v_loss, ac.v)):
        assert np.abs(assert_gradients(loss, net)).max() > 1e-3


def test_ratio_is_one_before_the_first_step(mlp_batch):
    for space in SPACES:
        ac, batch = mlp_batch(space)
        loss, info = compute_loss_pi(ac, batch, clip_ratio=0.2)
        assert float(loss.detach()) == pytest.approx(-float(batch["adv"].mean()), rel=1e-12)
        assert float(info["KL"].detach()) == 0 and float(info["ClipFrac"]) == 0


def test_first_gradient_is_the_policy_gradient(mlp_batch):
    ac, batch = mlp_batch(spaces.Box(-1, 1, (2,)))
    params = list(ac.pi.parameters())
    got = torch.autograd.grad(compute_loss_pi(ac, batch, 0.2)[0], params)
    logp = ac.pi(batch["obs"], batch["act"])[1]
    want = torch.autograd.grad(-(logp * batch["adv"]).mean(), params)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)


# ---- the update ------------------------------------------------------------------------------


def reference_update(ac, batch, pi_iters, v_iters, target_kl, clip=0.2, lr=1e-2):
    """The update written out again, with torch's plain machinery."""
    pi_opt, v_opt = optimizers(ac, lr)
    steps = 0
    for _ in range(pi_iters):
        logp = ac.pi(batch["obs"], batch["act"])[1]
        log_ratio = logp - batch["logp"]
        ratio = log_ratio.exp()
        if target_kl is not None and (ratio - 1 - log_ratio).mean() > 1.5 * target_kl:
            break
        gain = ratio * batch["adv"]
        bound = torch.where(batch["adv"] >= 0, (1 + clip) * batch["adv"], (1 - clip) * batch["adv"])
        pi_opt.zero_grad()
        (-torch.minimum(gain, bound).mean()).backward()
        pi_opt.step()
        steps += 1
    for _ in range(v_iters):
        v_opt.zero_grad()
        (ac.v(batch["obs"]) - batch["ret"]).pow(2).mean().backward()
        v_opt.step()
    return steps


@pytest.mark.parametrize("target_kl", [0.002, None])
@pytest.mark.parametrize("space", SPACES, ids=lambda s: type(s).__name__)
def test_the_update_is_the_pseudocode(mlp_batch, space, target_kl):
    ac, batch = mlp_batch(space)
    other = copy.deepcopy(ac)
    info = ppo_update(
        ac, *optimizers(ac), [batch], ONE, train_pi_iters=12, train_v_iters=5, target_kl=target_kl
    )
    steps = reference_update(other, batch, 12, 5, target_kl)
    assert info["StopIter"] == steps
    assert (steps < 12) == (target_kl is not None)
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


def test_early_stopping_ends_the_policy_steps_and_not_the_value_steps(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    before = bits(ac.v)
    info = ppo_update(
        ac, *optimizers(ac, 0.1), [batch], ONE, train_pi_iters=50, train_v_iters=2, target_kl=1e-3
    )
    assert 0 < info["StopIter"] < 50
    assert float(info["KL"]) > 1.5e-3
    assert not same(ac.v, before)


def test_no_target_kl_never_stops_early(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    info = ppo_update(
        ac, *optimizers(ac, 0.1), [batch], ONE, train_pi_iters=30, train_v_iters=0, target_kl=None
    )
    assert info["StopIter"] == 30 and float(info["KL"]) > 0.1


def test_no_policy_steps_leave_the_policy_and_report_no_divergence(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = bits(ac.pi)
    info = ppo_update(ac, *optimizers(ac), [batch], ONE, train_pi_iters=0, train_v_iters=3)
    assert same(ac.pi, before)
    assert info["StopIter"] == 0 and float(info["KL"]) == 0 and float(info["DeltaLossPi"]) == 0


def test_the_reported_divergence_is_the_one_that_was_reached(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    info = ppo_update(
        ac, *optimizers(ac), [batch], ONE, train_pi_iters=5, train_v_iters=1, target_kl=None
    )
    log_ratio = ac.pi(batch["obs"], batch["act"])[1] - batch["logp"]
    want = (log_ratio.exp() - 1 - log_ratio).mean()
    assert float(info["KL"]) == pytest.approx(float(want.detach()), rel=1e-9) and want > 0
    loss = compute_loss_pi(ac, batch, 0.2)[0]
    assert float(info["LossPi"] + info["DeltaLossPi"]) == pytest.approx(float(loss.detach()))
    loss = compute_loss_v(ac, batch)
    assert float(info["LossV"] + info["DeltaLossV"]) == pytest.approx(float(loss.detach()))
    assert float(info["DeltaLossPi"]) < 0 and float(info["DeltaLossV"]) < 0


def test_each_step_touches_only_its_own_parameters(mlp_batch):
    ac, batch = mlp_batch(SPACES[1], normalize_obs=True, normalize_ret=True)
    before = bits(ac.pi), bits(ac.v), [b.clone() for b in ac.buffers()]
    ppo_update(ac, *optimizers(ac), [batch], ONE, train_pi_iters=3, train_v_iters=0)
    assert not same(ac.pi, before[0]) and same(ac.v, before[1])
    before = bits(ac.pi), bits(ac.v), before[2]
    ppo_update(ac, *optimizers(ac), [batch], ONE, train_pi_iters=0, train_v_iters=3)
    assert same(ac.pi, before[0]) and not same(ac.v, before[1])
    assert all(torch.equal(b, c) for b, c in zip(ac.buffers(), before[2], strict=True))


def test_the_update_does_not_change_its_data(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = {k: x.clone() for k, x in batch.items()}
    ppo_update(
        ac,
        *optimizers(ac),
        [batch],
        ONE,
        minibatch_size=5,
        rngs=[np.random.default_rng(0)],
        train_pi_iters=2,
        train_v_iters=2,
    )
    assert set(before) == set(batch)
    assert all(torch.equal(x, batch[k]) for k, x in before.items())


# ---- minibatches -----------------------------------------------------------------------------


@pytest.mark.parametrize("rows, size, sizes", [(10, 4, [4, 3, 3]), (8, 4, [4, 4]), (3, 9, [3])])
def test_minibatches_cover_each_row_once_a_pass(rows, size, sizes):
    data = [{"obs": torch.arange(rows), "adv": torch.arange(rows) * 10}]
    passes = list(core.minibatches(data, 3, size, [np.random.default_rng(0)], ONE))
    assert [len(b["obs"]) for (b,) in passes] == sizes * 3
    orders = []
    for k in range(3):
        part = passes[k * len(sizes) : (k + 1) * len(sizes)]
        order = torch.cat([b["obs"] for (b,) in part])
        assert sorted(order.tolist()) == list(range(rows))
        assert torch.equal(torch.cat([b["adv"] for (b,) in part]), order * 10)
        orders.append(order.tolist())
    assert orders[0] != orders[1]  # a pass is shuffled anew


def test_without_a_size_a_step_learns_from_everything():
    data = [{"obs": torch.arange(5)}]
    assert [b is data for b in core.minibatches(data, 3, None, None, ONE)] == [True] * 3
    assert list(core.minibatches(data, 0, None, None, ONE)) == []


def test_each_shard_is_shuffled_by_its_own_generator():
    data = [{"obs": torch.arange(6)}, {"obs": torch.arange(6) + 100}]
    rngs = [np.random.default_rng(s) for s in (1, 2)]
    batches = list(core.minibatches(data, 1, 4, rngs, Shards(2)))
    alone = list(core.minibatches(data[:1], 1, 2, [np.random.default_rng(1)], ONE))
    assert [b[0]["obs"].tolist() for b in batches] == [b[0]["obs"].tolist() for b in alone]
    assert [len(b[1]["obs"]) for b in batches] == [2, 2, 2]


def test_shards_of_different_sizes_give_no_empty_minibatch_and_lose_no_row():
    # rows of resets (vector environments in next-step mode) do not count, so sizes can differ
    data = [{"obs": torch.arange(9)}, {"obs": torch.arange(6)}]
    rngs = [np.random.default_rng(s) for s in (1, 2)]
    batches = list(core.minibatches(data, 1, 4, rngs, Shards(2)))
    for shard, rows in ((0, 9), (1, 6)):
        parts = [b[shard]["obs"] for b in batches]
        assert all(len(x) > 0 for x in parts)
        assert sorted(torch.cat(parts).tolist()) == list(range(rows))


def test_a_shard_with_very_few_rows_has_one_in_every_minibatch():
    data = [{"obs": torch.arange(10)}, {"obs": torch.arange(3)}]
    rngs = [np.random.default_rng(s) for s in (1, 2)]
    batches = list(core.minibatches(data, 1, 2, rngs, Shards(2)))
    assert [[len(b["obs"]) for b in pair] for pair in batches] == [[4, 1], [3, 1], [3, 1]]


def test_minibatch_updates_learn_from_their_rows(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    other = copy.deepcopy(ac)
    ppo_update(
        ac,
        *optimizers(ac, 0.1, SGD),
        [batch],
        ONE,
        train_pi_iters=1,
        train_v_iters=1,
        target_kl=None,
        minibatch_size=5,
        rngs=[np.random.default_rng(3)],
    )
    rng, n = np.random.default_rng(3), len(batch["obs"])
    pi_opt, v_opt = optimizers(other, 0.1, SGD)
    order = rng.permutation(n)
    for rows in np.array_split(order, 3):
        part = {k: x[rows] for k, x in batch.items()}
        pi_opt.zero_grad()
        compute_loss_pi(other, part, 0.2)[0].backward()
        pi_opt.step()
    order = rng.permutation(n)
    for rows in np.array_split(order, 3):
        part = {k: x[rows] for k, x in batch.items()}
        v_opt.zero_grad()
        compute_loss_v(other, part).backward()
        v_opt.step()
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


# ---- gradient clipping -----------------------------------------------------------------------


def test_the_update_clips_the_gradients_of_both_networks(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = bits(ac.pi), bits(ac.v)
    ppo_update(
        ac,
        *optimizers(ac, 1.0, SGD),
        [batch],
        ONE,
        train_pi_iters=1,
        train_v_iters=1,
        max_grad_norm=1e-3,
    )
    for net, old in zip((ac.pi, ac.v), before, strict=True):
        moved = torch.cat([(p - q).reshape(-1) for p, q in zip(net.parameters(), old, strict=True)])
        assert float(moved.detach().norm()) == pytest.approx(1e-3, rel=1e-3)


# ---- the training function -------------------------------------------------------------------


def test_annealed_learning_rates_reach_the_optimizers(train, monkeypatch):
    seen = []

    def spy(ac, pi_optimizer, vf_optimizer, *args, **kwargs):
        seen.append([o.param_groups[0]["lr"] for o in (pi_optimizer, vf_optimizer)])
        return ppo_update(ac, pi_optimizer, vf_optimizer, *args, **kwargs)

    monkeypatch.setattr(module, "ppo_update", spy)
    train("ppo", "CartPole-v1", epochs=4, pi_lr=0.1, vf_lr=0.2, anneal_lr=True)
    np.testing.assert_allclose(seen, [[0.1, 0.2], [0.075, 0.15], [0.05, 0.1], [0.025, 0.05]])
    seen.clear()
    train("ppo", "CartPole-v1", epochs=2, pi_lr=0.1, vf_lr=0.2)
    assert seen == [[0.1, 0.2], [0.1, 0.2]]


@pytest.mark.parametrize(
    "extra", [{"train_pi_iters": 0}, {"target_kl": None}, {"train_v_iters": 0}]
)
def test_settings_at_their_edges_train(train, extra):
    (row,) = train("ppo", "CartPole-v1", **extra).rows
    assert all(math.isfinite(row[k]) for k in ("LossPi", "LossV", "KL", "Entropy"))
    assert row["StopIter"] == extra.get("train_pi_iters", 3)


@pytest.mark.parametrize("size", [0, -3])
def test_a_minibatch_of_no_rows_is_refused(train, size):
    with pytest.raises(
        SpinupError, match=rf"minibatch_size={size} must be a whole number, at least 1, or None"
    ):
        train("ppo", "CartPole-v1", minibatch_size=size)


@pytest.mark.parametrize("algo", ["ppo", "ppo_tf1"])
def test_a_log_std_that_does_not_fit_is_refused_before_anything_is_created(train, tmp_path, algo):
    with pytest.raises(SpinupError, match="log_std_init=-1 is for actions in a Box"):
        train(algo, "CartPole-v1", ac_kwargs={"log_std_init": -1})
    with pytest.raises(SpinupError, match="log_std_init='x' must be a number from -20 to 5"):
        train(algo, "Pendulum-v1", ac_kwargs={"log_std_init": "x"})
    assert list(tmp_path.iterdir()) == []


def test_every_extra_trains_together(train):
    run = train(
        "ppo",
        "Pendulum-v1",
        ac_kwargs={
            "hidden_sizes": (8,),
            "normalize_obs": True,
            "normalize_ret": True,
            "orthogonal_init": True,
            "log_std_init": -1.0,
        },
        minibatch_size=16,
        ent_coef=0.01,
        clip_vf=0.2,
        max_grad_norm=0.5,
        anneal_lr=True,
        num_envs=2,
        shards=2,
        epochs=2,
    )
    assert len(run.rows) == 2 and run.rows[-1]["TotalEnvInteracts"] == 80
