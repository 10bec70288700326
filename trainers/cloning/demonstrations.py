"""`Demonstrations`: the steps of a dataset that a policy learns from, and those held out.

Shape alphabet: B steps, A actors of one action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...datasets import DatasetError, EntityDataset, Steps
from ...envs import ActionMask, ActionSpace, EntityActionSpace, EntityBatch, MultiCategorical
from ...ragged import RaggedArray
from ..advantages import generalized_advantages
from .cloning_config import Illegal

#: Rewards are recorded in float32: 0.9 is a little less.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Demonstration:
    """B steps: observations, actions and discounted rewards."""

    observations: EntityBatch
    actions: dict[str, RaggedArray]  # per action (A,), one item per actor
    returns: NDArray[np.float32]  # (B,), discounted rewards to the end of the recorded episode

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def num_actors(self) -> int:
        """Actors of all actions at all steps."""
        return sum(chosen.num_items for chosen in self.actions.values())


class Demonstrations:
    """The decisions in a dataset, split by episodes; those of lanes that play one game stay together.

    Where an action was left out at a step, its actors are not learned from. An actor that has a choice, but
    whose mask allows none, is illegal: no policy has a probability for it.

    Args:
        dataset: the recorded play.
        held_out: the share of episodes to hold out; at least one episode if there are two and it is not 0.
        gamma: the discount of `Demonstration.returns`.
        illegal: "raise", or "drop" the steps with an action that the mask forbids.
        seed: chooses the held-out episodes.
        min_return: the least total reward of an episode to learn from or to hold out; None: any. An episode
            that the recording cut off counts with the rewards that it has.

    Attributes:
        learned, held_out: rows of the dataset to learn from, and to evaluate on.
        returns_variance: of the discounted rewards that followed the rows to learn from; 1 if they are equal.
        dropped: how many steps had an action that the mask forbids, per action.

    Raises:
        DatasetError: there is no decision in the dataset, or none in an episode with `min_return`, or an
            illegal action that may not be dropped.
    """

    def __init__(
        self,
        dataset: EntityDataset,
        held_out: float = 0.1,
        gamma: float = 0.99,
        illegal: Illegal = "raise",
        seed: int = 0,
        min_return: float | None = None,
    ) -> None:
        self.dataset = dataset
        legal, self.dropped = _legal_rows(dataset)
        if self.dropped and illegal == "raise":
            found = ", ".join(f"{count} of {name!r}" for name, count in self.dropped.items())
            episode, step = (dataset.column(name)[int(legal.argmin())] for name in ("episode", "step"))
            raise DatasetError(
                f"{dataset.path}: actions that their masks forbid: {found}, the first at step {step} of"
                f" episode {episode}. Drop their steps with illegal='drop'"
            )
        rows = dataset.decisions[legal[dataset.decisions]]
        if not len(rows):
            raise DatasetError(f"{dataset.path}: no step at which an action was chosen")
        if min_return is not None:
            rows = _of_good_episodes(dataset, rows, min_return)
        self._returns = _returns(dataset, gamma)
        numbers = dataset.games[rows]
        games = np.random.default_rng(seed).permutation(np.unique(numbers))
        count = min(max(1, round(held_out * len(games))), len(games) - 1) if held_out else 0
        is_held_out = np.isin(numbers, games[:count])
        self.learned: NDArray[np.int64] = rows[~is_held_out]
        self.held_out: NDArray[np.int64] = rows[is_held_out]
        self.returns_variance = float(self._returns[self.learned].var(dtype=np.float64)) or 1.0

    def gather(self, rows: ArrayLike) -> Demonstration:
        """Return the steps at `rows` (B,) of the dataset."""
        rows = np.asarray(rows, np.int64)
        steps = self.dataset.gather(rows)
        return Demonstration(_acting(steps), steps.actions, self._returns[rows])


def with_allowed_components(chosen: RaggedArray, action: MultiCategorical, part: ActionMask) -> RaggedArray:
    """Return legal actions (A,) with the first allowed choice in components that are masked.

    Only components that the kind does not use change. Networks with `composite="all"` need this.
    """
    mask = part.mask.values
    allowed = np.take_along_axis(mask, chosen.values + action.offsets[:-1], 1)
    if allowed.all():
        return chosen
    return chosen.with_values(np.where(allowed, chosen.values, action.first_allowed(mask)))


def _acting(steps: Steps) -> EntityBatch:
    """Return the observations without the actors of steps at which nothing was recorded for their action."""
    batch = steps.observations
    for name, chosen in steps.actions.items():
        empty = (chosen.lengths == 0) & (batch.actions[name].actors.lengths > 0)
        if empty.any():
            batch = batch.without_actors(empty, name)
    return batch


def _of_good_episodes(dataset: EntityDataset, rows: NDArray[np.int64], least: float) -> NDArray[np.int64]:
    """Return those of `rows` whose episodes have a total reward of at least `least`, in float32."""
    enough = least - _ROUNDING * max(1.0, abs(least))
    totals = {episode.number: episode.total_reward for episode in dataset.episodes}
    best = max(totals.values())
    if best < enough:
        raise DatasetError(
            f"{dataset.path}: min_return: expected a total reward that an episode reaches, got {least:g};"
            f" the best one has {best:g}"
        )
    good = [number for number, total in totals.items() if total >= enough]
    return rows[np.isin(dataset.column("episode")[rows], good)]


def _legal_rows(dataset: EntityDataset) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which rows hold legal actions only (N,), and how many do not, per action."""
    space: EntityActionSpace = dataset.space.actions
    legal, dropped, first = np.ones(len(dataset), bool), dict.fromkeys(space, 0), 0
    for steps in dataset:
        batch = _acting(steps)
        for name, action in space.items():
            chosen = steps.actions[name]
            wrong = chosen.lengths != batch.actions[name].actors.lengths
            part = batch.without_actors(wrong, name).actions[name] if wrong.any() else batch.actions[name]
            owner = chosen.sequence_indices()
            values, owner = chosen.values[~wrong[owner]], owner[~wrong[owner]]
            replaced, _ = action.replace_illegal(values, part)
            differs = replaced != values
            wrong[owner[differs.any(tuple(range(1, differs.ndim)))]] = True
            wrong |= _without_choice(action, replaced, part)
            dropped[name] += int(wrong.sum())
            legal[first : first + len(steps)] &= ~wrong
        first += len(steps)
    return legal, {name: count for name, count in dropped.items() if count}


def _without_choice(action: ActionSpace, first: NDArray[Any], part: ActionMask) -> NDArray[np.bool_]:
    """Return the steps (B,) with an actor that may do nothing, given the first allowed choices (A,)."""
    found = np.zeros(len(part.actors), bool)
    if not action.replace_illegal(first, part)[1]:
        return found
    choices = part.actors.with_values(first)
    for step in np.flatnonzero(choices.lengths):
        one = slice(step, step + 1)
        actees = None if part.actees is None else part.actees[one]
        mask = ActionMask(part.actors[one], part.mask[one], actees)
        found[step] = action.replace_illegal(choices[step], mask)[1] > 0
    return found


def _returns(dataset: EntityDataset, gamma: float) -> NDArray[np.float32]:
    """Return the discounted rewards that follow each row of the dataset (N,).

    A reward that came while a lane was inactive belongs to the last decision before it.
    """
    returns, rewards = np.zeros(len(dataset), np.float32), dataset.column("reward")
    active = np.zeros(len(dataset), bool)
    active[dataset.decisions] = True
    for episode in dataset.episodes:
        rows = episode.rows[:, None]  # of one lane
        values, never = np.zeros(rows.shape, np.float32), np.zeros(rows.shape, bool)
        ends = never, never
        _, returns[rows] = generalized_advantages(
            rewards[rows], values, values[0], values, *ends, gamma, 1.0, active[rows]
        )
    return returns
