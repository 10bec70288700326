"""`OpponentPool`: snapshots of a learner, and other trained policies, to play against.

Shape alphabet: M members.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ...envs.errors import one_of
from ...policies import Policy, fit_to, load_policy, newest_checkpoint, space_read_by
from ...policies.checkpoint import check_weights, malformed_means, read_metadata
from ..runs.checkpoint import Checkpoint, read_checkpoint
from .opponent_folder import OpponentFolder, missing_folder

#: How much an earlier game counts in a win rate after each later one.
DECAY = 0.99

#: Weight of a member as a function of the learner's win rate against it: prioritized fictitious
#: self-play, Vinyals et al., "Grandmaster level in StarCraft II using multi-agent reinforcement learning",
#: Nature 575 (2019), f_hard with p = 2 and f_var.
WEIGHTINGS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "uniform": np.ones_like,
    "hard": lambda win_rates: (1 - win_rates) ** 2,
    "variance": lambda win_rates: win_rates * (1 - win_rates),
}

_RESULTS = ("wins", "draws", "losses")


@dataclass(eq=False)
class Opponent:
    """A frozen policy and the learner's results against it."""

    number: int  # unique within a pool
    policy: Policy
    step: int | None = None  # of a snapshot; None: a fixed opponent
    source: str = ""  # of a fixed opponent: its path
    wins: int = 0  # of the learner
    draws: int = 0
    losses: int = 0
    recent_games: float = 0.0  # the last one counts 1, the one before `DECAY`, …
    recent_score: float = 0.0  # of these, 1 for a win and 1/2 for a draw

    def __repr__(self) -> str:
        which = self.source if self.step is None else f"step {self.step}"
        return f"Opponent({which}: {self.wins} won, {self.draws} drawn, {self.losses} lost)"

    @property
    def games(self) -> int:
        """Number of finished games against the learner."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """The learner's win rate, draws counting half, mostly over the last hundred games.

        One game with result 1/2 is added, so a new opponent counts as an equal and no win rate is 0 or 1.
        """
        return (self.recent_score + 0.5) / (self.recent_games + 1)

    def record(self, score: float) -> None:
        """Record a game: 1 if the learner won it, 1/2 for a draw, 0 if it lost."""
        self.wins += score == 1
        self.draws += score == 0.5
        self.losses += score == 0
        self.recent_games = DECAY * self.recent_games + 1
        self.recent_score = DECAY * self.recent_score + score

    def results(self) -> dict[str, Any]:
        """Return the results of games against this opponent, JSON-able."""
        return {name: getattr(self, name) for name in (*_RESULTS, "recent_games", "recent_score")}

    def take_results(self, saved: Mapping[str, Any]) -> None:
        """Restore the results that `results` returned.

        Raises:
            KeyError, TypeError, ValueError, OverflowError: this is something else; nothing has changed.
        """
        counts = [int(saved[name]) for name in _RESULTS]
        games, score = float(saved["recent_games"]), float(saved["recent_score"])
        if min(counts) < 0 or not 0 <= score <= games < math.inf:
            raise ValueError(f"results: expected counts and a score up to the number of games, got {saved}")
        self.wins, self.draws, self.losses = counts
        self.recent_games, self.recent_score = games, score


class OpponentPool:
    """Frozen policies to play against: snapshots of `learner`, and fixed ones from checkpoints.

        pool = OpponentPool(policy, folder="runs/first/opponents", weighting="hard")
        venv = past_self_play(venv, pool)

    `add` keeps a copy of the current learner. When the pool is full, the snapshot is evicted whose removal
    leaves the most even spacing in time; the first snapshot and the fixed members stay.

    Args:
        learner: the policy in training.
        folder: the folder `opponents` in the run folder, which keeps the members for a resumed run (see
            `OpponentFolder`); None: do not keep them. Snapshots of an earlier pool are deleted there, unless
            a checkpoint in the run folder needs them.
        checkpoints: fixed members: checkpoint folders, or run folders, of which the newest checkpoint is
            used. They may be other networks, with fewer entity types and features than the observations that
            the learner reads; call its `adapt_to` before.
        max_size: the maximal number of members, fixed ones included.
        weighting: how members are sampled: "uniform", "hard" (by (1 - w)², where w is the learner's win rate)
            or "variance" (by w (1 - w)); see `WEIGHTINGS`.

    Raises:
        ValueError: an unknown `weighting`, a `max_size` that is not an integer or leaves no room for a
            snapshot, or a fixed member that does not fit the learner's spaces.
        CheckpointError: a checkpoint is missing, corrupt or foreign.
    """

    def __init__(
        self,
        learner: Policy,
        *,
        folder: str | Path | None = None,
        checkpoints: Sequence[str | Path] = (),
        max_size: int = 20,
        weighting: str = "uniform",
    ) -> None:
        one_of("weighting", weighting, WEIGHTINGS)
        if isinstance(checkpoints, (str, Path)):
            raise ValueError(f"checkpoints: expected a list of paths, got {checkpoints!r}")
        if isinstance(max_size, bool) or not isinstance(max_size, (int, np.integer)):
            raise ValueError(f"max_size: expected an integer, got {max_size!r}")
        if max_size <= len(checkpoints):
            raise ValueError(
                f"max_size: expected room for a snapshot beside the {len(checkpoints)} checkpoints,"
                f" got {max_size}"
            )
        self.learner = learner
        self.folder = None if folder is None else OpponentFolder(folder)
        self.max_size = max_size
        self.weighting = weighting
        self.past: list[Opponent] = []  # by step
        self.fixed: list[Opponent] = []
        self._next_number = 0
        self._unsaved: dict[int, Checkpoint] = {}  # by place among the fixed
        for place, source in enumerate(map(str, checkpoints)):
            self.fixed.append(self._load_fixed(place, source))

    def __repr__(self) -> str:
        return f"OpponentPool({len(self.members)} members, weighting={self.weighting!r})"

    @property
    def members(self) -> list[Opponent]:
        """All members (M): fixed ones first, then snapshots by step."""
        return [*self.fixed, *self.past]

    def member(self, number: int) -> Opponent:
        """Return the member with this number.

        Raises:
            KeyError: there is none.
        """
        for opponent in self.members:
            if opponent.number == number:
                return opponent
        raise KeyError(number)

    # -- drawing --------------------------------------------------------------------------------------------

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of drawing each of `members` (M,)."""
        weights = WEIGHTINGS[self.weighting](np.array([member.win_rate for member in self.members]))
        return weights / weights.sum()

    def draw(self, rng: np.random.Generator) -> Opponent:
        """Sample a member.

        Raises:
            ValueError: the pool is empty.
        """
        members = self.members
        if not members:
            raise ValueError("the opponent pool is empty: add a snapshot first")
        return members[rng.choice(len(members), p=self.probabilities())]

    # -- growing --------------------------------------------------------------------------------------------

    def add(self, step: int) -> list[tuple[Opponent, Opponent]]:
        """Add a snapshot of the learner, which has trained for `step` environment steps.

        Returns:
            each snapshot that was evicted, with the next newer one, which can finish its games.

        Raises:
            ValueError: there is a snapshot of this step or a later one.
            CheckpointError: the folder can't be written, or its run needs another snapshot of this step; the
                pool is unchanged.
        """
        if self.past and step <= cast(int, self.past[-1].step):
            raise ValueError(
                f"snapshot: expected a step above that of the newest, {self.past[-1].step}, got {step}"
            )
        if self.folder is not None:
            self._save_fixed(self.folder)
            self.folder.save(step, self.learner)
        self.past.append(Opponent(self._number(), _frozen_copy(self.learner), step))
        evicted = self._thin()
        if self.folder is not None:
            self.folder.purge({cast(int, past.step) for past in self.past})
        return evicted

    def _thin(self) -> list[tuple[Opponent, Opponent]]:
        evicted = []
        while len(self.past) + len(self.fixed) > self.max_size and len(self.past) > 1:
            steps = [cast(int, past.step) for past in self.past]
            gaps = [after - before for before, after in zip(steps, steps[2:], strict=False)]
            place = 1 + int(np.argmin(gaps)) if gaps else 0  # with room for one only the newest stays
            evicted.append((self.past.pop(place), self.past[place]))
        return evicted

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    # -- fixed members --------------------------------------------------------------------------------------

    def _load_fixed(self, place: int, source: str) -> Opponent:
        """Load a fixed member from the run's own copy or, without one, from its source."""
        path = None if self.folder is None else self.folder.find_fixed(place, source)
        if path is None:
            path = newest_checkpoint(source)
            self._unsaved[place] = read_checkpoint(path)
        own: Any = type(self.learner)  # which may be a class of the user
        with malformed_means(f"checkpoint {path} does not describe a network"):
            is_of_its_class = read_metadata(path)["policy"]["class"] == own.__name__
        policy: Any = load_policy(path, network=own if is_of_its_class else None)
        try:
            fit_to(policy, space_read_by(self.learner))
        except ValueError as error:
            raise ValueError(f"the network of {source} does not fit the environment: {error}") from error
        return Opponent(self._number(), _frozen(policy), source=source)

    def _save_fixed(self, folder: OpponentFolder) -> None:
        for place, checkpoint in self._unsaved.items():
            folder.save_fixed(place, self.fixed[place].source, checkpoint)
        self._unsaved.clear()

    # -- resumed runs ---------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the members of the pool with their results, JSON-able; the networks are in the folder."""
        return {
            "next_number": self._next_number,
            "past": [{"number": p.number, "step": p.step, **p.results()} for p in self.past],
            "fixed": [{"number": f.number, "source": f.source, **f.results()} for f in self.fixed],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `get_state` returned: the snapshots, and the results of all members.

        Fixed members are those that the pool was made with; a new source starts without results.

        Raises:
            CheckpointError: there is no folder, or a snapshot in it is missing, corrupt or of another
                network; the pool is unchanged.
            KeyError, TypeError, ValueError: this is not the state of a pool.
        """
        steps = [saved["step"] for saved in state["past"]]
        if len(set(steps)) < len(steps):
            raise ValueError("past: expected each step once")
        past = [self._read_past(saved) for saved in state["past"]]
        known: dict[str, list[Mapping[str, Any]]] = {}
        for saved in state["fixed"]:
            known.setdefault(saved["source"], []).append(saved)
        next_number = int(state["next_number"])
        fixed = []
        for member in self.fixed:
            saved = known[member.source].pop(0) if known.get(member.source) else None
            number = next_number if saved is None else int(saved["number"])
            fixed.append(Opponent(number, member.policy, source=member.source))
            if saved is None:
                next_number += 1
            else:
                fixed[-1].take_results(saved)
        numbers = [member.number for member in (*fixed, *past)]
        if len(set(numbers)) < len(numbers) or not all(0 <= n < next_number < 2**53 for n in numbers):
            raise ValueError(f"number: expected each from 0 to {next_number - 1} once, got {numbers}")
        self.past, self.fixed, self._next_number = past, fixed, next_number

    def _read_past(self, saved: Mapping[str, Any]) -> Opponent:
        if self.folder is None:
            raise missing_folder()
        checkpoint = self.folder.read(int(saved["step"]))
        policy = _frozen_copy(self.learner)
        check_weights(policy.state_dict(), checkpoint)
        policy.load_state_dict(checkpoint.tensors["policy"])
        opponent = Opponent(int(saved["number"]), policy, int(saved["step"]))
        opponent.take_results(saved)
        return opponent

    def metrics(self) -> dict[str, float]:
        """Return the number of members and the learner's win rates against those that it has played."""
        metrics = {"opponents/size": float(len(self.members))}
        played = [member for member in self.members if member.games]
        metrics["opponents/games"] = float(sum(member.games for member in played))
        if played:
            rates = [member.win_rate for member in played]
            metrics["opponents/win_rate"] = float(np.mean(rates))
            metrics["opponents/lowest_win_rate"] = min(rates)
        for place, member in enumerate(self.fixed):
            if member.games:
                metrics[f"opponents/win_rate_fixed_{place}"] = member.win_rate
        return metrics


def _frozen_copy(policy: Policy) -> Policy:
    """Return a copy of `policy` without gradients, which acts like it."""
    twin = copy.deepcopy(policy)
    for parameter in twin.parameters():
        parameter.grad = None
    return _frozen(twin)


def _frozen(policy: Policy) -> Policy:
    module = cast(nn.Module, policy)
    module.requires_grad_(False)
    module.eval()
    return policy
