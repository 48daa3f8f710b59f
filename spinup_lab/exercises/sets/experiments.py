"""The experiments of all problem sets (kind E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spinup_lab.exercises.experiments import UNCLEAR, Arm, Experiment, trend, worst_arm

NOT_CLEAR = "these runs cannot establish a difference between all of them"

GAE_LAMBDA = Experiment(
    id="tools.exp_lambda",
    title="bias against variance of the advantage",
    set=0,
    minutes=15,
    difficulty=2,
    algorithms=("vpg", "trpo", "ppo"),
    page="spinningup/rl_intro3",
    task="""
GAE's lambda chooses between the critic and the data. Every step of a chain of 20 steps pays 1 plus
noise of standard deviation 1, and gamma is 0.95. The critic is wrong by about 4 in every state. The
true advantage is known exactly here. Which lambda comes closest to it, in root mean squared error?
`Accuracy` is minus that error.
""",
    choices={
        "0": "lambda = 0 is closest: only one noisy reward enters",
        "0.9": "lambda = 0.9 is closest",
        "0.97": "lambda = 0.97 is closest",
        "1": "lambda = 1 is closest: the wrong critic does not enter",
        UNCLEAR: NOT_CLEAR,
    },
    arms=tuple(Arm(str(lam), {"lam": lam}) for lam in (0, 0.9, 0.97, 1)),
    value="Accuracy",
    seeds=8,
    last=1,
    measure="spinup_lab.exercises.measures:advantage_error",
    seconds=1,
    lesson="""
lambda = 0 has no variance but takes over the critic's whole error; lambda = 1 has no bias but
collects the noise of twenty rewards. In between, the critic's error is multiplied by 1 - lambda
and the noise of later rewards by lambda^t, so even a bad critic helps a little. The columns Bias
and Std show the trade. With a better critic, the best lambda is lower.
""",
    hints=(
        "Write down the error of the estimate for lambda = 0 and for lambda = 1.",
        "lambda = 0: gamma times the critic's error, about 3.8. lambda = 1: the root of the sum of "
        "gamma^2t over 19 later rewards, about 2.8.",
        "Something between 0 and 1 beats both ends. How much noise does 0.97 still let in?",
    ),
)

BASELINE = Experiment(
    id="reinforce.exp_baseline",
    title="what a baseline is worth",
    set=1,
    minutes=15,
    difficulty=2,
    algorithms=("reinforce", "vpg"),
    page="spinningup/rl_intro3",
    task="""
REINFORCE weights each score with the rewards that follow. The rewards here are about 5 per step for
ten steps, and the better action pays only 0.5 more. Compare the variance of the gradient with no
baseline, with a constant one (the mean return) and with the value of the state. Which has the
smallest variance? `MinusLogVariance` is minus its decimal logarithm.
""",
    choices={
        "none": "no baseline: subtracting something only adds an estimate",
        "constant": "the constant baseline",
        "value": "the value of the state",
        UNCLEAR: NOT_CLEAR,
    },
    arms=tuple(Arm(name, {"baseline": name}) for name in ("none", "constant", "value")),
    value="MinusLogVariance",
    seeds=8,
    last=1,
    measure="spinup_lab.exercises.measures:gradient_noise",
    seconds=1,
    lesson="""
Without a baseline the gradient carries the whole return, about 50 at the first step, although only
0.5 depends on the action. A constant removes the mean but not the decline of the return over the
episode. The value of the state removes everything that was known before the action: the variance is
almost two hundred times smaller. The column MeanGradient is the same for all three: a baseline does
not change the gradient's mean.
""",
    hints=(
        "The variance of score * (return - b) is smallest if return - b is small on average.",
        "How large is the return-to-go at the first step, and at the last?",
        "A constant fits the middle of the episode only. The value fits every step.",
    ),
)

TRAIN_V = Experiment(
    id="vpg.exp_train_v_iters",
    title="does the value function have to be trained?",
    set=2,
    minutes=20,
    difficulty=2,
    algorithms=("vpg",),
    page="algorithms/vpg",
    task="""
VPG trains its value function for `train_v_iters` gradient steps per epoch. Compare 0 (the value
function keeps its random weights) with 80, on CartPole for 20 epochs of 1000 steps. Which reaches
the higher return?
""",
    choices={
        "0": "0 is better: an untrained V adds no bias",
        "80": "80 is better: a trained V removes noise from the advantages",
        UNCLEAR: "these runs cannot establish a difference",
    },
    arms=tuple(Arm(str(n), {"train_v_iters": n}) for n in (0, 80)),
    value="AverageEpRet",
    seeds=8,
    algo="vpg",
    settings={
        "env_name": "CartPole-v1",
        "steps_per_epoch": 1000,
        "epochs": 20,
        "pi_lr": 0.01,
        "vf_lr": 0.003,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=10,
    lesson="""
A value function that is not trained cannot tell good states from bad ones, so the advantages keep
the spread of the returns. On CartPole that costs less than its reputation: advantages are
normalized, which already removes their mean, and all states of a good episode have similar
returns. In the shipped runs the trained one ends higher, but eight seeds cannot establish it. Not
established does not mean equal: the interval says how large the difference may still be.
""",
    hints=(
        "What does V do in VPG? It does not act, and it is not maximized.",
        "The advantage is (roughly) return minus V. What remains of the return's spread if V does "
        "not follow it?",
        "More noise in the gradient means slower learning, not none. Is 20 epochs enough to see "
        "it, with this many seeds?",
    ),
)

DELTA = Experiment(
    id="trpo.exp_delta",
    title="how large should the trust region be?",
    set=3,
    minutes=20,
    difficulty=3,
    algorithms=("trpo",),
    page="algorithms/trpo",
    task="""
TRPO moves the policy as far as the KL divergence `delta` allows. Compare 0.001, 0.01 and 0.1 on
CartPole, 15 epochs of 1000 steps. Which is clearly WORSE than the other two?
""",
    choices={
        "0.001": "0.001: its steps are too small to get anywhere in 15 epochs",
        "0.01": "0.01, the default",
        "0.1": "0.1: its steps leave the region where the batch says anything",
        UNCLEAR: "none is established to be worse than both others",
    },
    arms=tuple(Arm(str(d), {"delta": d}) for d in (0.001, 0.01, 0.1)),
    value="AverageEpRet",
    seeds=6,
    decide=worst_arm,
    algo="trpo",
    settings={
        "env_name": "CartPole-v1",
        "steps_per_epoch": 1000,
        "epochs": 15,
        "vf_lr": 0.003,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=10,
    lesson="""
The distance that a policy can travel is about the number of updates times the step, and the step
grows like the square root of delta. With few updates, a small trust region simply does not get
there. A large one is riskier on tasks where a bad policy ends episodes at once; CartPole forgives
it. The line search is the second safety: see BacktrackIters.
""",
    hints=(
        "15 epochs are 15 policy updates. How far can the policy get?",
        "The step length is proportional to sqrt(delta): 0.001 steps are 10 times shorter than "
        "those of 0.1.",
        "Compare the return after the same number of updates, not at the end of learning.",
    ),
)

CLIP = Experiment(
    id="ppo.exp_clip",
    title="what does clipping do without the early stop?",
    set=4,
    minutes=20,
    difficulty=3,
    algorithms=("ppo",),
    page="algorithms/ppo",
    task="""
PPO has two brakes: the clipped ratio, and the early stop by KL divergence. Switch the early stop
off, raise the policy's learning rate to 0.003, and compare clip_ratio = 0.02, 0.2 and 10 (no
clipping at all) on CartPole, 12 epochs of 1000 steps with 80 gradient steps each. Which is clearly
WORSE than the other two?
""",
    choices={
        "0.02": "0.02: the policy hardly moves",
        "0.2": "0.2, the default",
        "10": "10: nothing holds the policy back",
        UNCLEAR: "none is established to be worse than both others",
    },
    arms=tuple(Arm(str(c), {"clip_ratio": c}) for c in (0.02, 0.2, 10)),
    value="AverageEpRet",
    seeds=6,
    decide=worst_arm,
    algo="ppo",
    settings={
        "env_name": "CartPole-v1",
        "steps_per_epoch": 1000,
        "epochs": 12,
        "pi_lr": 0.003,
        "target_kl": None,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=10,
    lesson="""
Clipping takes the gradient away from rows whose ratio has moved far enough, so it limits an epoch's
step without measuring it. 0.02 stops most rows after a few gradient steps: in the shipped runs it
has hardly begun to learn. With 10, no row is ever stopped: there the seeds scatter most, but six
of them cannot establish that it is worse than 0.2. The column KL shows how far each arm moved.
""",
    hints=(
        "Eighty gradient steps on the same batch: what does the last of them still know?",
        "Clipping removes the gradient of rows that have moved far enough. With 10, no row ever "
        "is.",
        "Look at the column KL of the runs: how far does the policy move in one epoch?",
    ),
)

ACT_NOISE = Experiment(
    id="ddpg.exp_act_noise",
    title="how much noise does exploration need?",
    set=5,
    minutes=20,
    difficulty=2,
    algorithms=("ddpg",),
    page="algorithms/ddpg",
    task="""
DDPG explores by adding noise to its actions, after 500 random steps. Compare no noise, 0.1 and 0.5
(in units of half the action range) on Pendulum, 5 epochs of 1000 steps, by the return of tests
without noise. Which is best?
""",
    choices={
        "0": "0: the data has no errors",
        "0.1": "0.1, the default",
        "0.5": "0.5: Pendulum needs a lot of exploration",
        UNCLEAR: NOT_CLEAR,
    },
    arms=tuple(Arm(str(noise), {"act_noise": noise}) for noise in (0, 0.1, 0.5)),
    value="AverageTestEpRet",
    seeds=5,
    last=1,
    algo="ddpg",
    settings={
        "env_name": "Pendulum-v1",
        "ac_kwargs:hidden_sizes": (32, 32),
        "steps_per_epoch": 1000,
        "epochs": 5,
        "start_steps": 500,
        "update_after": 500,
        "batch_size": 64,
        "num_test_episodes": 5,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=25,
    lesson="""
On Pendulum the random start already shows the critic most of what it needs, so the noise matters
less than its reputation: look at the intervals before you believe an order. Where rewards are
sparse, no noise means that what was not found in the random start is never found.
""",
    hints=(
        "Tests are without noise. Only the data in the buffer differs.",
        "Which actions does the critic know about if the policy never deviates?",
        "Five seeds, three arms: how large must a difference be to be established?",
    ),
)

ALPHA = Experiment(
    id="sac.exp_alpha",
    title="how much should randomness be worth?",
    set=7,
    minutes=25,
    difficulty=3,
    algorithms=("sac",),
    page="algorithms/sac",
    task="""
SAC adds alpha times the entropy to every reward. A step of Pendulum costs between 0 and 16. Compare
alpha = 0.01, 0.2 and 10, 5 epochs of 1000 steps, by the return of tests without sampling. Which is
clearly WORSE than the other two?
""",
    choices={
        "0.01": "0.01: the policy stops exploring too early",
        "0.2": "0.2, the default",
        "10": "10: the policy is paid more for randomness than for swinging up",
        UNCLEAR: "none is established to be worse than both others",
    },
    arms=tuple(Arm(str(alpha), {"alpha": alpha}) for alpha in (0.01, 0.2, 10)),
    value="AverageTestEpRet",
    seeds=5,
    last=1,
    decide=worst_arm,
    algo="sac",
    settings={
        "env_name": "Pendulum-v1",
        "ac_kwargs:hidden_sizes": (32, 32),
        "steps_per_epoch": 1000,
        "epochs": 5,
        "start_steps": 500,
        "update_after": 500,
        "batch_size": 64,
        "num_test_episodes": 5,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=30,
    lesson="""
Only the ratio of reward to alpha matters: alpha = 10 on Pendulum is alpha = 1 with rewards that are
ten times smaller. Compare AverageLogPi of the arms: it shows how random each policy stayed. A test
takes the most likely action, so even a random policy may do well in it if its mean is right.
""",
    hints=(
        "Compare alpha times the entropy of the uniform policy, log 4 here, with a step's reward.",
        "The uniform policy on (-2, 2) has an entropy of 1.39, so alpha = 10 pays up to 14 per "
        "step for being random.",
        "What does the policy's gradient look like if that bonus is as large as the reward?",
    ),
)

EQUAL_ACTIONS = Experiment(
    id="dqn.exp_equal_actions",
    title="why the maximum of noisy values is too large",
    set=8,
    minutes=15,
    difficulty=2,
    algorithms=("dqn", "td3", "sac"),
    page="algorithms/dqn",
    task="""
All actions of a state are worth exactly 0, and the network's estimates are wrong by independent
errors of standard deviation 1. DQN's target takes the maximum. How does the overestimate change as
the number of actions goes from 2 to 10 to 100?
""",
    choices={
        "falls": "it falls: errors of many actions cancel",
        "rises": "it rises: the more tries, the luckier the best",
        "same": "it stays: the errors have mean zero",
        UNCLEAR: NOT_CLEAR,
    },
    arms=tuple(Arm(str(n), {"actions": n}) for n in (2, 10, 100)),
    value="Overestimate",
    seeds=8,
    last=1,
    decide=trend,
    measure="spinup_lab.exercises.measures:overestimate",
    seconds=1,
    lesson="""
The expected maximum of n standard normal numbers is 0.56 for two, 1.54 for ten and 2.51 for a
hundred. Each backup passes it on, multiplied by gamma, so a critic with an error of 1 can end up
overestimating by many times that. The column DoubleQ evaluates the chosen action with a second,
independent estimate: it is near zero for every n.
""",
    hints=(
        "Throw one die, and then a hundred dice: how high is the highest?",
        "E[max] of n standard normal numbers grows like sqrt(2 log n).",
        "The expected maximum of two is 1 / sqrt(pi), about 0.56.",
    ),
)

TRUNCATION = Experiment(
    id="acer.exp_c",
    title="where to truncate importance weights",
    set=9,
    minutes=25,
    difficulty=4,
    algorithms=("acer",),
    page="algorithms/acer",
    task="""
ACER truncates importance weights at c and lets the critic account for the rest. Compare c = 1 with
c = 10, the default, on CartPole, 8 epochs of 1000 steps. Which reaches the higher return?
""",
    choices={
        "1": "1: less variance",
        "10": "10: less depends on a critic that is still wrong",
        UNCLEAR: "these runs cannot establish a difference",
    },
    arms=tuple(Arm(str(c), {"c": c}) for c in (1, 10)),
    value="AverageEpRet",
    seeds=6,
    last=3,
    algo="acer",
    settings={
        "env_name": "CartPole-v1",
        "steps_per_epoch": 1000,
        "epochs": 8,
        "num_test_episodes": 0,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=20,
    lesson="""
Look at ClipFrac first: it is the fraction of weights above c. If hardly any weight is, the two
settings do nearly the same, and no number of seeds will separate them. Weights grow with the
distance between the current policy and the one that acted, so c matters more with a large replay
buffer and a fast policy.
""",
    hints=(
        "When does c matter at all? Only where a ratio exceeds it.",
        "A ratio of 10 means that the policy now likes the action ten times as much as before.",
        "With two actions, pi is at most 1, so a ratio above 10 needs mu below 0.1.",
    ),
)

BIT_FLIP = Experiment(
    id="her.exp_bitflip",
    title="where plain DQN stops",
    set=10,
    minutes=20,
    difficulty=2,
    algorithms=("her", "dqn"),
    page="algorithms/her",
    task="""
BitFlip has n bits and 2^n states, and the reward is -1 until the goal is reached. Compare k = 0
(DQN alone) with k = 4 hindsight goals per transition, for n = 8 bits and 4 epochs of 2000 steps.
Which has the higher success rate in tests?
""",
    choices={
        "0": "k = 0: true goals are the better data",
        "4": "k = 4: hindsight turns failures into successes for other goals",
        UNCLEAR: "these runs cannot establish a difference",
    },
    arms=tuple(Arm(str(k), {"k": k}) for k in (0, 4)),
    value="TestSuccessRate",
    seeds=5,
    last=1,
    algo="her",
    settings={
        "env_name": "spinup/BitFlip-v0",
        "env_kwargs:n": 8,
        "ac_kwargs:hidden_sizes": (64,),
        "steps_per_epoch": 2000,
        "epochs": 4,
        "start_steps": 500,
        "update_after": 500,
        "update_every": 4,
        "updates_per_step": 0.5,
        "num_test_episodes": 20,
        "num_threads": 1,
        "save_freq": 1000,
    },
    seconds=25,
    lesson="""
A random episode of n steps reaches one given state of 256 only now and then, so DQN alone sees
almost nothing but -1 and has nothing to learn from. Relabeled with states that were reached, every
episode is a success for some goal. With n = 5 both work; the gap opens as 2^n outgrows the number
of episodes.
""",
    hints=(
        "How often does a random episode of 8 flips end at a given one of 256 states?",
        "Without a success in the buffer, every Q-value converges to the same number.",
        "2000 steps are about 250 episodes per epoch.",
    ),
)


def _enough(result: Mapping[str, Any], arms: Sequence[str]) -> str:
    """Return the smallest number of seeds that finds the difference in 80 % of the trials."""
    for arm in arms:
        if result["algorithms"][arm]["iqm"] >= 0.8:
            return arm
    return UNCLEAR


POWER = Experiment(
    id="workflow.exp_seeds",
    title="how many seeds until two algorithms differ?",
    set=11,
    minutes=15,
    difficulty=3,
    page="plotting",
    task="""
Algorithm A really is better than B: its scores are higher by one standard deviation of the seeds
(as when A scores 200 +- 50 and B 150 +- 50). You run both with 3, 5, 10 or 20 seeds and test at the
5 % level. Which is the smallest number that finds the difference in at least 80 % of all such
experiments?
""",
    choices={
        "3": "3 seeds",
        "5": "5 seeds, the usual number in papers",
        "10": "10 seeds",
        "20": "20 seeds",
        UNCLEAR: "even 20 are not enough",
    },
    arms=tuple(Arm(str(n), {"seeds": n}) for n in (3, 5, 10, 20)),
    value="Power",
    seeds=8,
    last=1,
    decide=_enough,
    measure="spinup_lab.exercises.measures:power",
    seconds=2,
    lesson="""
With three seeds a permutation test can never reach p = 0.05 (the smallest possible p is 0.1), and
with five a difference of one standard deviation is found about one time in five. Most differences
in papers are not larger than that. `spinup compare` says how many more seeds would be needed.
""",
    hints=(
        "With 3 against 3 runs there are 20 ways to divide them: how small can p be?",
        "The standard error of a difference of means is sqrt(2 / n) standard deviations.",
        "n = 10: the difference is 1, its standard error 0.45, and p < 0.05 needs about two "
        "standard errors.",
    ),
)

EXERCISES = (
    GAE_LAMBDA,
    BASELINE,
    TRAIN_V,
    DELTA,
    CLIP,
    ACT_NOISE,
    ALPHA,
    EQUAL_ACTIONS,
    TRUNCATION,
    BIT_FLIP,
    POWER,
)
