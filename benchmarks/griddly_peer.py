"""Griddly's own environments, playing the same episodes as a vector environment of ours."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from entitize.adapters.griddly import GriddlyVectorEnv, Rules
from entitize.adapters.griddly.rules import OBSERVER
from numpy.typing import NDArray

#: Games without variables, with one of the avatar, with many objects in shared cells, and with armies.
GAMES = ("Clusters", "Zelda", "Bait", "Sokoban---2", "GriddlyRTS")

#: Where these are left out, an observer has the window of the game around the avatar.
_BOARD = {
    "TrackAvatar": False,
    "RotateWithAvatar": False,
    **dict.fromkeys(("Width", "Height", "OffsetX", "OffsetY"), 0),
}


class GriddlyPeers:
    """Griddly's own environments, one for each game of `venv`, with an entity observer for each player.

    The observers report the features, variables and masks that ours reports.

    Args:
        venv: an environment that was reset, without a limit of its own on the number of steps.
        seeds: (E,) the seeds of the lanes' episodes.

    Attributes:
        environments: the environments.
    """

    def __init__(self, venv: GriddlyVectorEnv, seeds: NDArray[np.int64]) -> None:
        with contextlib.redirect_stderr(io.StringIO()):  # gym's warning
            from griddly import GymWrapper
        self._players, text = venv.rules.num_players, _with_masks(venv.rules)
        self.environments = [
            GymWrapper(yaml_string=text, player_observer_type=OBSERVER, global_observer_type="None")
            for _ in venv.games
        ]
        for environment, seed in zip(self.environments, self._of_games(seeds), strict=True):
            environment.game.seed(seed)
            environment.reset()

    def prepare(
        self, commands: Sequence[NDArray[np.int32]], seeds: NDArray[np.int64]
    ) -> list[tuple[Any, int]]:
        """Return for each game what its environment takes as an action, and the seed of the next episode.

        Args:
            commands: of each lane, those of a step of ours.
            seeds: (E,) of the lanes' episodes after that step.
        """
        count, found = self._players, []
        for game, seed in enumerate(self._of_games(seeds)):
            own: Any = list(commands[game * count : (game + 1) * count])
            if own[0].shape[1] == 4 and max(map(len, own)) < 2:
                # By two rows it distinguishes armies from avatars; it ignores further rows of zeros.
                own[0] = np.concatenate([own[0], np.zeros((2, 4), np.int32)])
            found.append((own if count > 1 else own[0], seed))
        return found

    def step(self, prepared: Sequence[tuple[Any, int]]) -> list[tuple[Any, bool]]:
        """Play a step in each game; return its observation and whether the episode ended with it."""
        results = []
        for environment, (action, seed) in zip(self.environments, prepared, strict=True):
            observation, _, is_over, _ = environment.step(action)
            if is_over:
                environment.game.seed(seed)
                observation = environment.reset()
            results.append((observation, is_over))
        return results

    def _of_games(self, seeds: NDArray[np.int64]) -> list[int]:
        found: list[int] = seeds[:: self._players].tolist()
        return found


def _with_masks(rules: Rules) -> str:
    """Return the game's file with an entity observer that reports what ours observes."""
    start = rules.text.index(f"{OBSERVER}: {{") + len(OBSERVER) + 2
    ours, end = json.JSONDecoder().raw_decode(rules.text, start)
    features = {name: value for name, value in ours.items() if name not in _BOARD}
    masks = {"IncludeMasks": True, "GlobalVariableMapping": list(rules.variables)}
    options = features | masks | ({} if rules.window else _BOARD)
    return rules.text[:start] + json.dumps(options) + rules.text[end:]
