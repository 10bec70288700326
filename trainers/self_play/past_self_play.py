"""`past_self_play`: games between the learner, its snapshots and other frozen policies.

Shape alphabet: E environments (lanes).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import (
    ActionError,
    EntityBatch,
    EntityVectorEnv,
    inactive_lanes,
    no_actions,
    validate_actions,
)
from ...envs.batch.batch_actions import are_ragged
from ...envs.seeds import Seeds
from ...envs.vector import Actions, EntityVectorWrapper, StepResult
from ...envs.vector.infos import final_observations
from ...envs.vector.saved_state import StatefulVectorEnv, check_arrays
from ...policies.checkpoint import malformed_means
from ...ragged import RaggedArray
from ..compatibility import checked_module
from ..runs.trainer_state import rng_of
from ..schedule import is_due
from .games import Games, games_of, join_actions, players_actions
from .opponents import OpponentPool
from .player_assignment import LEARNER, PlayerAssignment

_PREFIX = "past_self_play/"
#: Combined with the seed of a reset, so that opponents and environments use different random numbers.
_STREAM = 0x0BB0


def past_self_play(
    venv: EntityVectorEnv,
    pool: OpponentPool,
    *,
    latest_share: float = 0.8,
    interval: int = 100_000,
    games: Games | None = None,
    seed: int | None = None,
) -> PastSelfPlay:
    """Return `venv` with some of its lanes played by members of `pool`.

        venv = ez.make_vec("MultiSnake/lanes", num_envs=8)
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space)
        pool = ez.self_play.OpponentPool(policy, folder="runs/snakes/opponents")
        ez.PPO(policy, ez.self_play.past_self_play(venv, pool), config, "runs/snakes").train()

    Args:
        venv: several of its lanes play in one game.
        pool: the opponents; train `pool.learner` with the result, no other policy.
        latest_share: probability from 0 to 1 that the learner plays all sides of a game. The default is that
            of OpenAI Five (Berner et al. 2019).
        interval: environment steps of the learner between two snapshots.
        games: the sides of each game, each side a lane or several; None: read from `venv.lane_games`, every
            lane of a game being a side. The learner plays lanes that are left out, or alone in a game.
        seed: seeds the random numbers of a reset without a seed; None: from the operating system.

    Raises:
        TypeError, ValueError: an option is out of range, the learner's actions differ from those of `venv`,
        or no two lanes play in one game.
    """
    kind = StatefulPastSelfPlay if isinstance(venv, StatefulVectorEnv) else PastSelfPlay
    return kind(venv, pool, latest_share=latest_share, interval=interval, games=games, seed=seed)


class PastSelfPlay(EntityVectorWrapper):
    """Environments in which frozen policies play some of the lanes; made by `past_self_play`.

    The players of a game are drawn when it starts. With probability `latest_share`, or while the pool is
    empty, the learner plays all of its lanes. Otherwise the learner plays one side, chosen uniformly among
    those whose agents are in the game at its start, and a member of the pool all others, until the game is
    over: when all its lanes have ended, or the next one has begun.

    An opponent's lane is *inactive* (see `EntityVectorEnv`): it has no actors, takes no actions, gets no
    reward and never ends, and infos with a mask of lanes (`_outcome`) leave it out. Everything else is passed
    on unchanged. Each opponent acts once per step, on all of its lanes together.

    Results of finished games are recorded in the pool: by the `outcome` ("win", "draw" or "loss") in `info`
    or `info["final_info"]`, of several lanes the best, if it exists; otherwise by whether the mean return of
    the learner's lanes was larger than that of the opponent's (a difference up to 1e-6 is a draw).

    The pool grows in `set_progress`, which trainers call before each rollout: by the learner as it was at the
    start, and then after every `interval` active steps of its lanes.

    Attributes:
        steps: environment steps of the learner, as `PPO.step` counts them. With a pool that has snapshots of
            an earlier training, `set_progress` continues from the newest one's step. Steps of `evaluate` in
            these environments do not count; see `uncounted`.
        assignment: says which player plays each lane.

    Raises:
        ActionError: an action for a lane that an opponent plays, or one that the environments refuse; no lane
            has moved.
    """

    validates_in_step = True  # the environments validate, together with the opponents' actions

    def __init__(
        self,
        venv: EntityVectorEnv,
        pool: OpponentPool,
        *,
        latest_share: float,
        interval: int,
        games: Games | None,
        seed: int | None,
    ) -> None:
        if not isinstance(pool, OpponentPool):
            raise TypeError(f"past_self_play: pool: expected an OpponentPool, got {pool!r}")
        if not 0 <= latest_share <= 1:
            raise ValueError(f"latest_share: expected a number from 0 to 1, got {latest_share}")
        if interval < 1:
            raise ValueError(f"interval: expected at least 1, got {interval}")
        checked_module(pool.learner, venv)
        super().__init__(venv)
        self.vector_spec = venv.vector_spec
        self.pool = pool
        self.interval = interval
        self.steps = 0
        self.assignment = PlayerAssignment(games_of(venv, games), venv.num_envs, pool, latest_share)
        self._grown_at = 0
        self._rng = np.random.default_rng(seed)
        self._batch: EntityBatch | None = None  # the environments' observations, of all lanes
        self._inactive = np.zeros(venv.num_envs, bool)  # the lanes that are inactive in it for any player
        self._moves: list[tuple[NDArray[np.int64], Actions]] | None = None  # opponents', at `_batch`

    # -- stepping -------------------------------------------------------------------------------------------

    def _seeds(self, seed: Seeds) -> Seeds:
        return seed

    def _reset(self, seed: Any, options: dict[str, Any] | None) -> tuple[EntityBatch, dict[str, Any]]:
        """Start all games and draw their players."""
        batch, info = self.venv.reset(seed=seed, options=options)
        seeds = [number for number in np.atleast_1d(np.asarray(seed, object)) if number is not None]
        if seeds:
            self._rng = np.random.default_rng([_STREAM, *seeds])
        self._see(batch, info)
        self.assignment.draw_all(batch, self._inactive, self._rng)
        return self._shown(), self._with_inactive(info)

    def _step(self, actions: Actions) -> StepResult:
        theirs = self.assignment.players != LEARNER
        num_active = int(np.count_nonzero(~theirs & ~self._inactive))
        if theirs.any():
            actions = self._joined(actions, theirs)
        after, rewards, terminated, truncated, info = self.venv.step(actions)
        self.steps += num_active
        self._see(after, info)
        self.assignment.follow(rewards, terminated | truncated, info, after, self._inactive, self._rng)
        if theirs.any():
            rewards = np.where(theirs, np.float32(0), rewards)
            terminated, truncated = terminated & ~theirs, truncated & ~theirs
            info = _hide_infos(info, theirs)
        return self._shown(), rewards, terminated, truncated, self._with_inactive(info)

    def _see(self, batch: EntityBatch, info: Mapping[str, Any]) -> None:
        self._batch, self._inactive, self._moves = batch, inactive_lanes(info, self.num_envs), None

    def _shown(self) -> EntityBatch:
        """Return the batch without the actors of opponents."""
        assert self._batch is not None
        theirs = self.assignment.players != LEARNER
        return self._batch.without_actors(theirs) if theirs.any() else self._batch

    def _with_inactive(self, info: dict[str, Any]) -> dict[str, Any]:
        theirs = self.assignment.players != LEARNER
        if not theirs.any():
            return info
        others = {key: value for key, value in info.items() if key != "_inactive"}
        return {**others, "inactive": self._inactive | theirs}

    def _joined(self, actions: Actions, theirs: NDArray[np.bool_]) -> dict[str, RaggedArray]:
        """Join the learner's actions and the opponents', lane by lane."""
        own = self._learners_actions(actions, theirs)
        if self._moves is None:  # else the last step was refused: reuse their actions
            self._moves = self._opponents_moves()
        return join_actions(own, self._moves)

    def _opponents_moves(self) -> list[tuple[NDArray[np.int64], Actions]]:
        """Return, for each opponent, the lanes that it plays and that have actors, and its actions there."""
        assert self._batch is not None
        policies = {member.number: member.policy for member in self.pool.members}
        return players_actions(self._batch, policies, self.assignment.players, self._rng)

    def _learners_actions(self, actions: Actions, theirs: NDArray[np.bool_]) -> dict[str, RaggedArray]:
        """Return the learner's actions as arrays that fit together, with none for opponents' lanes.

        The environments check their values.
        """
        space = self.single_action_space
        if isinstance(actions, Mapping):
            for name, order in actions.items():
                if isinstance(order, RaggedArray) and len(order) == self.num_envs:
                    wrong = np.flatnonzero(theirs & (order.lengths > 0))
                    if len(wrong):
                        raise ActionError(
                            f"env {wrong[0]}: action {name!r}: an opponent plays this lane, leave it out"
                        )
        if not are_ragged(actions, space, self.num_envs):
            return validate_actions(self.single_observation_space, self._shown(), actions)
        return {**no_actions(space, self.num_envs), **actions}

    # -- training -------------------------------------------------------------------------------------------

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave `steps` and the results in the pool as they are meanwhile, as `evaluate` does.

        The policy that plays may be another than the learner.
        """
        steps, self.assignment.are_recording = self.steps, False
        try:
            yield
        finally:
            self.steps, self.assignment.are_recording = steps, True

    def set_progress(self, fraction: float) -> None:
        """Let the pool grow when it is due; pass the fraction on to the environments.

        Raises:
            CheckpointError: the pool's folder can't be written.
        """
        self.venv.set_progress(fraction)
        newest = max((past.step or 0 for past in self.pool.past), default=0)
        if newest >= self.steps:  # a pool of an earlier training: continue its count
            self.steps = self._grown_at = newest
        if not self.pool.past or is_due(self._grown_at, self.steps, self.interval):
            evicted = self.pool.add(self.steps)
            self._grown_at = self.steps
            for left, heir in evicted:
                self.assignment.players[self.assignment.players == left.number] = heir.number
                self._moves = None

    def get_training_state(self) -> dict[str, Any]:
        """Return the pool, and the state of the random draws; see `EvolvingVectorEnv`."""
        return {
            "steps": self.steps,
            "grown_at": self._grown_at,
            "rng": self._rng.bit_generator.state,
            "pool": self.pool.get_state(),
        }

    def set_training_state(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `get_training_state` returned.

        Raises:
            CheckpointError: a snapshot can't be read, or this is not such a state; nothing has changed.
        """
        with malformed_means("the checkpoint does not describe an opponent pool"):
            steps, grown_at = int(state["steps"]), int(state["grown_at"])
            if not 0 <= grown_at <= steps < 2**53:
                raise ValueError(f"grown_at, steps: expected 0 <= {grown_at} <= {steps} < 2^53")
            rng = rng_of(state["rng"])
            self.pool.set_state(state["pool"])
        self.steps, self._grown_at, self._rng = steps, grown_at, rng
        self.assignment.clear()

    def training_metrics(self) -> dict[str, float]:
        """Return `OpponentPool.metrics()`."""
        return self.pool.metrics()


class StatefulPastSelfPlay(PastSelfPlay):
    """`PastSelfPlay` over environments that can save their state: see `StatefulVectorEnv`."""

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the environments' state, and the players."""
        assert isinstance(self.venv, StatefulVectorEnv)
        own = {"idle": self._inactive, **self.assignment.get_state()}
        return {**self.venv.get_state(), **{_PREFIX + name: array.copy() for name, array in own.items()}}

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> EntityBatch:
        """Restore the state that `get_state` returned; the pool must be that of the same time.

        The learner plays lanes without a known player until their games are over: those of a state of the
        environments alone, and those whose player has left the pool.

        Raises:
            ValueError: the state is of another game or of another number of lanes; nothing has changed.
        """
        assert isinstance(self.venv, StatefulVectorEnv)
        own = {name.removeprefix(_PREFIX): a for name, a in state.items() if name.startswith(_PREFIX)}
        if own:
            own.setdefault("joined", np.ones(self.num_envs, bool))  # states of version 0.1 have none
            check_arrays(type(self).__name__, {"idle": self._inactive, **self.assignment.get_state()}, own)
        others = {name: array for name, array in state.items() if not name.startswith(_PREFIX)}
        self._batch = self.venv.set_state(others)
        self._moves = None
        self.assignment.set_state(own)
        self._inactive = np.array(own["idle"], bool) if own else np.zeros(self.num_envs, bool)
        return self._continue_from(self._shown())


def _hide_infos(info: dict[str, Any], lanes: NDArray[np.bool_]) -> dict[str, Any]:
    """Return `info` of a step without the values and last observations of these `lanes` (E,)."""
    hidden = _hide_masked(info, lanes)
    if (found := final_observations(info)) is not None:
        ended, final = found
        hidden["final_obs"] = final.gather(np.flatnonzero(~lanes[ended]))
    return hidden


def _hide_masked(info: dict[Any, Any], lanes: NDArray[np.bool_]) -> dict[Any, Any]:
    """Return `info`, and the dicts in it such as `final_info`, with masks that leave out these `lanes` (E,).

    A value has lanes where a mask `_key` (E,) is beside the `key`, as in Gymnasium's vector environments.
    """
    hidden = dict(info)
    for key, value in info.items():
        if isinstance(value, dict):
            hidden[key] = _hide_masked(value, lanes)
        elif str(key).startswith("_") and key[1:] in info and getattr(value, "shape", None) == lanes.shape:
            hidden[key] = value & ~lanes
    return hidden
