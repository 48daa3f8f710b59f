"""Atari games with the usual preprocessing, done by ale-py's vector environment.

    env = make_env("ALE/Pong-v5")     # pip install 'spinup[atari]'; OpenCV is not needed

A reset takes up to 30 no-ops, then presses FIRE, for which some games wait. Each action is repeated
for four frames; the last two are merged by their maximum, turned gray, scaled to 84 x 84 and
stacked on the three before. Sticky actions and the set of actions are as the ID says: in version 5,
the emulator repeats the last action with probability 0.25 at every frame, and only the actions that
a game distinguishes are offered.

Two things differ between training and testing. In training, rewards are clipped to their sign, and
losing a life ends the episode for the learner, though the game goes on. The returns that are logged
(`EpRet`) are true scores of whole games all the same, and so is everything that a test episode, or
any other user of the environment, sees.

One environment is a vector of one, so that training and testing see the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from ale_py import Action, ALEInterface, AtariVectorEnv, LoggerMode
from ale_py.roms import get_all_rom_ids, get_rom_path
from gymnasium.utils import EzPickle
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from spinup.envs.game_arguments import check_count, check_flag, check_probability
from spinup.envs.layers import layers
from spinup.parallel.launch import physical_cores
from spinup.parallel.mpi import num_procs, proc_id
from spinup.utils.errors import SpinupError, nearest

__all__ = ["Atari"]

_HARMLESS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)
_FLAGS = (
    "full_action_space",
    "continuous",
    "maxpool",
    "use_fire_reset",
    "reward_clipping",
    "episodic_life",
)
_MOST = 1000  # pixels, frames or no-ops; more are a mistake, or a file that wants our memory


class Atari(gymnasium.Env, EzPickle):
    """An Atari game; the observation is a stack of gray frames, (4, 84, 84), oldest first.

    Args:
        game: the name of the ROM, such as `pong`; the ID sets it.
        repeat_action_probability: probability of a sticky action, at every frame.
        full_action_space: offer all 18 actions, not only those that the game distinguishes.
        continuous: actions are the radius and angle of a joystick, and whether to fire.
        continuous_action_threshold: how far the joystick must be moved to count.
        frameskip: number of frames for which an action is repeated.
        stack_num: number of frames in an observation.
        img_height, img_width: size of a frame.
        maxpool: merge the last two frames of a step, since games draw some objects every other one.
        noop_max: a game begins with a random number of no-ops, at most this many.
        use_fire_reset: press FIRE after a reset and after a lost life, if the game knows it: some
            games wait for it. After a lost life, it replaces the action that was chosen.
        reward_clipping: in training, learn from the sign of a reward.
        episodic_life: in training, a lost life ends the episode for the learner.
        max_num_frames_per_episode: frames after which a game is truncated.
        render_mode: "rgb_array", or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(
        self,
        game: str,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        frameskip: int = 4,
        stack_num: int = 4,
        img_height: int = 84,
        img_width: int = 84,
        maxpool: bool = True,
        noop_max: int = 30,
        use_fire_reset: bool = True,
        reward_clipping: bool = True,
        episodic_life: bool = True,
        max_num_frames_per_episode: int = 108_000,
        render_mode: str | None = None,
    ):
        arguments = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        EzPickle.__init__(self, **arguments)
        # All arguments, for the record: the defaults of another version may differ.
        self.settings = {k: v for k, v in arguments.items() if k != "render_mode"}
        if game not in get_all_rom_ids():
            raise SpinupError(f"ale-py has no game {game!r}{nearest(str(game), get_all_rom_ids())}")
        for name in ("frameskip", "stack_num", "img_height", "img_width", "noop_max"):
            check_count(name, self.settings[name], 0 if name == "noop_max" else 1, _MOST)
        check_count("max_num_frames_per_episode", max_num_frames_per_episode, frameskip, 10**8)
        for name in _FLAGS:
            check_flag(name, self.settings[name])
        for name in ("repeat_action_probability", "continuous_action_threshold"):
            check_probability(name, self.settings[name])
        self.render_mode = render_mode
        self.reward_clipping, self.episodic_life = bool(reward_clipping), bool(episodic_life)
        self.frame_stack = stack_num  # what a replay buffer needs to know to store a frame once
        self.max_ep_len = max_num_frames_per_episode // frameskip  # instead of the default
        self._vector = self.vector(1)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self._screen: AtariVectorEnv | None = None  # the same game once more, in color
        self._frame: np.ndarray | None = None
        if render_mode == "rgb_array":
            height, width = _screen_size(game)
            size = {"img_height": height, "img_width": width, "stack_num": 1}
            self._screen = self.vector(1, grayscale=False, **size)
        buttons = list(self._vector.ale.get_action_set())
        fires = use_fire_reset and not continuous and Action.FIRE in buttons
        self._fire = buttons.index(Action.FIRE) if fires else None
        self._lives, self._lost, self._seeded = 0, False, False

    def vector(self, num_envs: int, num_threads: int | None = 1, **changes: Any) -> AtariVectorEnv:
        """Return a vector of environments like this one, with true rewards and whole games.

        It plays the same games on any number of threads; None means one per core.
        """
        if num_threads is None:
            num_threads = max(1, physical_cores() // num_procs())
        return AtariVectorEnv(
            num_envs=num_envs,
            num_threads=min(num_threads, num_envs),
            **{**self.settings, "reward_clipping": False, "episodic_life": False, **changes},
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game. A seed reloads the game, which takes as long as 250 steps."""
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31 - 1))
        self._seeded = True
        obs, info = self._vector.reset(seed=seed)
        if self._screen is not None:
            self._frame = self._screen.reset(seed=seed)[0][0, 0]
        self._lives, self._lost = int(info["lives"][0]), False
        return obs[0], {"lives": self._lives}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Repeat an action for `frameskip` frames; the reward is the true score."""
        act = np.asarray(self._fire if self._lost and self._fire is not None else action)[None]
        obs, rew, terminated, truncated, info = self._vector.step(act)
        if self._screen is not None:
            self._frame = self._screen.step(act)[0][0, 0]
        before, self._lives = self._lives, int(info["lives"][0])
        self._lost = self._lives < before
        flags = bool(terminated[0]), bool(truncated[0])
        return obs[0], float(rew[0]), *flags, {"lives": self._lives}

    def render(self) -> Any:
        """Return the screen in color, at its own size: 210 x 160 in most games."""
        return None if self._frame is None else self._frame.copy()

    def streams(
        self,
        env: gymnasium.Env,
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
        num_threads: int | None,
    ) -> Any:
        """Return a stream of games to train on per seed, played by one vector environment.

        None if `env`, which is this environment in its wrappers, is in one that could change
        something: it is then stepped like any other environment.
        """
        outer = list(layers(env))[:-1]
        others = [type(layer).__name__ for layer in outer if type(layer) not in _HARMLESS]
        if others:
            if proc_id() == 0:
                warnings.warn(
                    f"the game is in {', '.join(others)}, so each environment is stepped by "
                    "itself, with true rewards and whole games",
                    stacklevel=2,
                )
            return None
        from spinup.envs.vector import RESEED_ATARI, MaskedStreams

        limits = [int(x._max_episode_steps) for x in outer if isinstance(x, TimeLimit)]
        return MaskedStreams(
            self.vector(len(seeds), num_threads),
            seeds,
            max_ep_len,
            single=env,
            time_limit=min(limits, default=None),
            reseed_after=RESEED_ATARI,
            clip_rewards=self.reward_clipping,
            end_at_lost_life=self.episodic_life,
            after_lost_life=self._fire,
        )


def _screen_size(game: str) -> tuple[int, int]:
    rom = get_rom_path(game)
    assert rom is not None  # the vector environment has loaded it
    ALEInterface.setLoggerMode(LoggerMode.Error)  # no greeting
    ale = ALEInterface()
    ale.loadROM(rom)
    return ale.getScreenDims()
