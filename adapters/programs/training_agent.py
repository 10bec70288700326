"""`TrainingAgent`: the agent of a game in training, whose decisions come from a trainer."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any, TypeVar, overload

import numpy as np

from ...envs.actions import Action, EntityActionSpace
from ...envs.actions.array_checks import real_number
from ...envs.batch.batch_actions import sample_actions
from ...envs.batch.entity_batch import batch_observations
from ...envs.batch.resolve import Observation, ResolvedObservation, Resolver
from ...envs.decisions import decide_member, decide_members
from ...envs.errors import ObservationError
from ...envs.spaces import EntitySpace
from .lane import Answer, Lane
from .outcomes import Result

_Choice = TypeVar("_Choice", bound=Enum)

#: What a game may say of its end, for each player.
OUTCOMES = ("win", "draw", "loss")


class TrainingAgent:
    """Decides for one game, as `load_agent`'s agents do, with decisions that come from a trainer.

    `act` and `choose` wait until the trainer has decided. The reward of a decision is the difference of the
    scores of the observations before and after it, or the `reward` that the later one gives.

    Attributes:
        observation_space, action_space: what the program declared.
        rng: random numbers for the game, seeded by the trainer.
    """

    def __init__(self, space: EntitySpace, lane: Lane, name: str, rng: np.random.Generator) -> None:
        self.observation_space: EntitySpace = space
        self.action_space: EntityActionSpace = space.actions
        self.rng = rng
        #: True while an episode has begun and is not over.
        self.is_playing = False
        #: How many questions were asked.
        self.questions = 0
        self._lane = lane
        self._resolver = Resolver(space, name)
        self._score = self._total = 0.0
        self._given: str | None = None  # "score" or "reward": what came in this episode

    @overload
    def act(self, seen: Observation, rng: type[_Choice]) -> _Choice | dict[Any, _Choice]: ...
    @overload
    def act(
        self, seen: Observation, rng: np.random.Generator | None = None, deterministic: bool = False
    ) -> dict[str, Action]: ...
    def act(self, seen: Observation, rng: Any = None, deterministic: bool = False) -> Any:
        """Decide for every actor of `seen`. Same contract as `Agent.act` of the runtime.

        `rng` and `deterministic` are for trained agents: a trainer draws with its own generator.

        Raises:
            ObservationError: the observation is not of the declared spaces, a hidden entity acts or can be
                selected, the score is no finite number, or a reward came before it in this episode.
            TypeError: no action has the choices of the Enum, or `rng` is something else.
            GameStopped: training is over. Let it pass.
        """
        if isinstance(rng, type):
            return decide_members(seen, rng, self.action_space, lambda asked: self._ask(asked, seen))
        if not isinstance(rng, np.random.Generator | None):
            raise TypeError(f"act: expected the Enum of an action, or a generator, got {rng!r}")
        return self._ask(seen, seen)

    def choose(
        self,
        seen: Observation,
        choices: type[_Choice],
        rng: np.random.Generator | None = None,
        deterministic: bool = False,
    ) -> _Choice:
        """Make one decision. Same contract as `Agent.choose` of the runtime, and errors as of `act`."""
        return decide_member(seen, choices, self.action_space, lambda asked: self._ask(asked, seen))

    def game_over(
        self,
        seen: Observation | None = None,
        *,
        score: float | None = None,
        reward: float | None = None,
        truncated: bool = False,
        outcome: str | None = None,
    ) -> None:
        """End the episode; does nothing where none has begun, unless the game has other players.

        Args:
            seen: the last observation, with its score.
            score: the last score, where there is no `seen`.
            reward: in place of the score the reward since the last question.
            truncated: the episode was cut off, by a time limit for instance, and would have gone on.
            outcome: "win", "draw" or "loss"; None: who of several players has won is read from their scores.

        Raises:
            ObservationError: as of `act`; the whole episode had neither score nor reward; or an unknown
                outcome.
            GameStopped: training is over. Let it pass.
        """
        if not self.is_playing:
            if not self._lane.is_shared:
                return
            self._score, self._total, self._given = 0.0, 0.0, None
        if outcome not in (None, *OUTCOMES):
            raise ObservationError(
                f"{self._resolver.env_name}: outcome: expected one of {', '.join(OUTCOMES)}, got {outcome!r}"
            )
        final = None if seen is None else self._resolver.resolve(seen)
        if seen is not None and score is None and reward is None:
            score, reward = _result(seen)
        earned = self._earned(score, reward)
        if self._given is None and not truncated and self.is_playing:
            raise ObservationError(
                f"{self._resolver.env_name}: game_over: expected a score or a reward in the episode, got"
                " neither. Give one with an observation or with game_over"
            )
        total = None if self._given is None else self._total
        self._lane.end(earned, truncated, final, Result(total, outcome))
        self.is_playing = False

    def _ask(self, asked: Observation, seen: Observation) -> dict[str, Action]:
        """Ask for the actions of `asked`, which is `seen` with its actors."""
        resolved = self._resolver.resolve(asked)
        if self.observation_space.hidden:
            self._check_visible(resolved)
        if not self.is_playing:
            self._score, self._total, self._given = 0.0, 0.0, None
        earned = self._earned(*_result(seen))
        reward = earned if self.is_playing else 0.0  # what comes before the first decision is no reward
        self.is_playing = True
        self.questions += 1
        answer = self._lane.ask(resolved, reward)
        return self._resolver.dispatch(resolved, self._any_answer(resolved) if answer is None else answer)

    def _any_answer(self, asked: ResolvedObservation) -> Answer:
        """Return legal actions that are drawn uniformly."""
        space = self.observation_space
        batch = batch_observations(space, [asked.plain(space)])
        return {name: a.values for name, a in sample_actions(space.actions, batch, self.rng).items()}

    def _check_visible(self, resolved: ResolvedObservation) -> None:
        """Refuse actors and actees that are hidden: no network could compute their choices."""
        shown = np.concatenate([np.zeros(0, np.int8), *resolved.visible.values()]).astype(bool)
        for name, part in resolved.actions.items():
            for role, indices in (("actors", part.actors), ("actees", part.actees)):
                of_entities = np.zeros(0, np.int64) if indices is None else indices.values
                of_entities = of_entities[of_entities >= 0]  # a global action has the actor -1
                hidden = of_entities[~shown[of_entities]]
                if len(hidden):
                    raise ObservationError(
                        f"{self._resolver.env_name}: action {name!r}: {role}: expected entities that are"
                        f" visible, got {resolved.names[hidden[0]]!r}, which is hidden. Name the visible ones"
                    )

    def _earned(self, score: float | None, reward: float | None) -> float:
        """Return the reward since the last question."""
        if score is not None and reward is not None:
            raise ObservationError(
                f"{self._resolver.env_name}: expected a score or a reward, got both: {score!r} and {reward!r}"
            )
        if score is None and reward is None:
            return 0.0
        name = "score" if reward is None else "reward"
        if self._given not in (None, name):
            raise ObservationError(
                f"{self._resolver.env_name}: expected a {self._given}, as before in this episode, got a"
                f" {name}"
            )
        number = self._number(name, score if reward is None else reward)
        self._given = name
        if name == "reward":
            self._total += number
            return number
        before, self._score, self._total = self._score, number, number
        return number - before

    def _number(self, what: str, value: Any) -> float:
        try:
            number = real_number(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ObservationError(
                f"{self._resolver.env_name}: {what}: expected a finite number, got {value!r}"
            )
        return number


def _result(seen: Observation) -> tuple[float | None, float | None]:
    """Return the score and the reward that an observation gives."""
    return getattr(seen, "score", None), getattr(seen, "reward", None)
