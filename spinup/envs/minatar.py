"""MinAtar: five Atari games on a grid of 10 x 10 cells, with one channel per kind of object.

    env = make_env("MinAtar/Breakout-v1")     # pip install 'spinup[minatar]'

Version 1 has the actions that matter in the game, version 0 has all six. The games are those of the
package `minatar`. Unlike its own environment, this one forgets the last action at a reset, so that
an episode follows from its seed and its actions alone, and it renders without a display.
"""

from __future__ import annotations

import colorsys
from typing import Any

import gymnasium
import minatar
import numpy as np
from gymnasium import spaces

from spinup.envs.game_arguments import check_flag, check_probability
from spinup.envs.registration import GAMES
from spinup.utils.errors import SpinupError

__all__ = ["MinAtar"]

_CELL = 32  # pixels per cell of a rendered frame


class MinAtar(gymnasium.Env):
    """A game of MinAtar; the observation is an image of booleans, (10, 10, channels).

    Args:
        game: asterix, breakout, freeway, seaquest or space_invaders.
        use_minimal_action_set: leave out the actions that do nothing in this game.
        sticky_action_prob: probability that the last action is repeated instead of the chosen one.
        difficulty_ramping: let the game become faster with time; Breakout and Freeway do not.
        render_mode: "rgb_array", or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        game: str,
        use_minimal_action_set: bool = False,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ):
        if game not in GAMES:  # it becomes the name of a module
            raise SpinupError(f"MinAtar has no game {game!r}: it has {', '.join(GAMES)}")
        check_flag("use_minimal_action_set", use_minimal_action_set)
        check_flag("difficulty_ramping", difficulty_ramping)
        check_probability("sticky_action_prob", sticky_action_prob)
        self.render_mode = render_mode
        self.game = minatar.Environment(
            game, sticky_action_prob=sticky_action_prob, difficulty_ramping=difficulty_ramping
        )
        minimal = use_minimal_action_set
        self._actions = list(self.game.minimal_action_set() if minimal else range(6))
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 1, tuple(self.game.state_shape()), dtype=np.bool_)
        if game == "freeway":
            self.max_ep_len = 2_501  # the game itself ends then, having counted down from 2,500

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
        self.game.last_action = 0  # a sticky first action must not be the previous game's last
        self.game.reset()
        return self.game.state(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one frame."""
        reward, over = self.game.act(self._actions[int(action)])
        return self.game.state(), float(reward), bool(over), False, {}

    def render(self) -> Any:
        """Return the grid as an image, in one color per channel; later channels lie on top."""
        if self.render_mode != "rgb_array":
            return None
        state = self.game.state()
        channels = state.shape[2]
        hues = [colorsys.hsv_to_rgb(i / channels, 0.7, 1.0) for i in range(channels)]
        colors = np.array([(0.0, 0.0, 0.0), *hues])
        top = np.max(state * np.arange(1, channels + 1), axis=2)  # 0: an empty cell
        cells = (255 * colors[top]).astype(np.uint8)
        return cells.repeat(_CELL, axis=0).repeat(_CELL, axis=1)
