"""The state of a trainer in a checkpoint: capture and restore."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...envs import EntityVectorEnv, schema_difference, space_schema
from ...envs.vector.saved_state import StatefulVectorEnv, check_arrays
from ...envs.vector.wrapper import evolving_layer
from ...policies import Policy
from ...policies.checkpoint import MALFORMED, check_weights, edited_network, malformed_means
from ...policies.engines.plain_form import plain_difference
from ...policies.rogue_net import RogueNet, RogueNetConfig
from ...policies.rogue_net.config import engine_of
from ..collector import Collector
from ..config import PPOConfig
from ..lanes import Shown
from ..rollout_source import RolloutSource
from ..starting_policy import StartingPolicy
from .checkpoint import Checkpoint, CheckpointError, network_metadata
from .saved_optimizer import OPTIMIZER, SavedOptimizer


def check_policy(policy: Policy, checkpoint: Checkpoint) -> None:
    """Check that a checkpoint is of `policy`; warn if it is of one that was edited, and `policy` is not.

    Raises:
        CheckpointError: it is of another network or other spaces.
    """
    theirs = checkpoint.metadata["spaces"]
    difference = schema_difference(space_schema(policy.observation_space), theirs)
    if difference:
        raise CheckpointError(f"checkpoint {checkpoint.path} is for other spaces: {difference}")
    saved = checkpoint.metadata["policy"]
    ours = {"class": type(policy).__name__, **json.loads(json.dumps(policy.config))}
    # A checkpoint lacks options that were added after it was written: they have their defaults.
    defaults = RogueNetConfig().to_dict() if isinstance(policy, RogueNet) else {}
    theirs = {"class": saved["class"], **defaults, **saved["config"]}
    if "engine" in theirs:
        theirs["engine"] = engine_of(theirs)
    if "attention" in theirs:
        theirs["attention"] = "auto"
    for name in [*ours, *(n for n in theirs if n not in ours)]:
        here, there = (side.get(name, "absent") for side in (ours, theirs))
        if here != there:
            raise CheckpointError(
                f"checkpoint {checkpoint.path} is of another network: {name} is {here} here, {there} there"
            )
    check_weights(policy.state_dict(), checkpoint)
    saved_otherwise = edited_network(checkpoint.metadata)
    if saved_otherwise is not None and plain_difference(policy) is None:
        warnings.warn(f"checkpoint {checkpoint.path}: {saved_otherwise}", UserWarning, stacklevel=2)


def rng_of(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in the state that a checkpoint holds.

    Raises:
        ValueError, TypeError, KeyError, OverflowError: it is no state of NumPy's default generator.
    """
    for name, value in (*state.items(), *state["state"].items()):
        if isinstance(value, int) and value < 0:
            raise ValueError(f"rng: {name}: expected no number below 0, got {value}")
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng


#: Key of the learning rates in a checkpoint's metadata.
_RATES = "learning_rates"

#: Key of the state from `EvolvingVectorEnv.get_training_state` in a checkpoint's metadata.
TRAINING_STATE = "training_state"


class Trainer(Protocol):
    """Interface of a trainer with a run folder and state in checkpoints, such as `PPO`."""

    policy: Policy
    venv: EntityVectorEnv | RolloutSource
    rng: np.random.Generator
    collector: Collector
    step: int
    updates: int
    elapsed_seconds: float

    @property
    def config(self) -> PPOConfig:
        """The hyper-parameters."""
        ...

    def restore(self, checkpoint: Any) -> None:
        """Continue from a checkpoint, given as a path."""
        ...

    def restore_optimizer(self, saved: SavedOptimizer) -> None:
        """Restore the state of the optimizer; see `OwnsOptimizer`."""
        ...

    def saved_optimizer(self) -> tuple[dict[str, Tensor], str | None]:
        """Return the state of the optimizer and its class; see `OwnsOptimizer`."""
        ...

    def learning_rates(self) -> list[float]:
        """Return the learning rates at this moment; see `OwnsOptimizer`."""
        ...

    def set_learning_rates(self, rates: list[float]) -> None:
        """Continue with these rates; see `OwnsOptimizer`."""
        ...


def derived_seed(seed: int, step: int) -> int:
    """Return the seed for episodes that start at environment step `step` of a run with seed `seed`."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) & 0x7FFFFFFF


def capture(trainer: Trainer) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Return the tensors, on the host, and the metadata of a checkpoint of `trainer` at this moment."""
    collector = trainer.collector
    moments, optimizer = trainer.saved_optimizer()
    tensors = {
        "policy": dict(trainer.policy.state_dict()),
        "optimizer": moments,
        "trainer": {"torch_rng": torch.get_rng_state(), **_as_tensors(collector.episodes.state())},
    }
    if collector.reward_normalizer is not None:
        tensors["trainer"] |= _as_tensors(collector.reward_normalizer.state())
    if collector.start is not None:
        tensors["start"] = dict(collector.start.policy.state_dict())
    # None: the trainer resets the environments next, so that their state does not matter; or they are those
    # of several ranks, of which one writes.
    is_lost = trainer.config.reset_at_checkpoint or collector.ranks.size > 1
    shown = None if is_lost else collector.shown
    if shown is not None and isinstance(trainer.venv, StatefulVectorEnv):
        tensors["environments"] = _as_tensors(trainer.venv.get_state())
        if shown.active is not None:
            tensors["trainer"]["active"] = torch.from_numpy(shown.active)
    metadata = {
        "updates": trainer.updates,
        "elapsed_seconds": trainer.elapsed_seconds,
        "num_envs": collector.num_lanes,
        "rng": trainer.rng.bit_generator.state,
        **network_metadata(trainer.policy),
        OPTIMIZER: optimizer,
        _RATES: trainer.learning_rates(),
        "ppo": asdict(trainer.config),
    }
    if (evolving := evolving_layer(trainer.venv)) is not None:
        metadata[TRAINING_STATE] = evolving.get_training_state()
    on_host = {group: {name: t.cpu() for name, t in parts.items()} for group, parts in tensors.items()}
    return on_host, metadata


def restore(trainer: Trainer, checkpoint: Checkpoint) -> Shown | None:
    """Restore the state of `trainer`; if this raises, nothing has changed.

    Returns:
        the observations, if the environments' state could be restored, else None.

    Raises:
        CheckpointError: the checkpoint is of another network, other spaces or another trainer.
    """
    collector = trainer.collector
    try:
        with malformed_means(f"checkpoint {checkpoint.path} is not of this trainer"):
            check_policy(trainer.policy, checkpoint)
            state = _trainer_state(trainer, checkpoint)
            if collector.start is not None:
                _check_start(collector.start, checkpoint)
            shown = _restored_environments(trainer, checkpoint, state.arrays)
    except CheckpointError as error:  # of a part that does not know the checkpoint, such as opponents
        if str(checkpoint.path) in str(error):
            raise
        raise CheckpointError(f"checkpoint {checkpoint.path}: {error}") from error
    trainer.policy.load_state_dict(checkpoint.tensors["policy"])
    if collector.start is not None:
        collector.start.policy.load_state_dict(checkpoint.tensors["start"])
    trainer.restore_optimizer(state.optimizer)
    if state.rates is not None:
        trainer.set_learning_rates(state.rates)
    trainer.rng = state.rng
    torch.set_rng_state(checkpoint.tensors["trainer"]["torch_rng"])
    trainer.step, trainer.updates, trainer.elapsed_seconds = state.step, state.updates, state.elapsed
    collector.episodes.restore(state.arrays)
    if collector.reward_normalizer is not None:
        collector.reward_normalizer.restore(state.arrays)
    return shown


def _check_start(start: StartingPolicy, checkpoint: Checkpoint) -> None:
    if "start" not in checkpoint.tensors:
        raise CheckpointError(
            f"checkpoint {checkpoint.path} has no starting policy: it was written with start_kl_coef=0"
        )
    check_weights(start.policy.state_dict(), checkpoint, "start")


@dataclass(frozen=True, eq=False)
class _TrainerState:
    """Checked content of a checkpoint besides weights and environments."""

    optimizer: SavedOptimizer
    rates: list[float] | None  # of a schedule of the user; None: the configuration's
    rng: np.random.Generator
    step: int
    updates: int
    elapsed: float
    arrays: dict[str, NDArray[Any]]  # of `trainer.safetensors`


def _trainer_state(trainer: Trainer, checkpoint: Checkpoint) -> _TrainerState:
    """Read a trainer's own state in a checkpoint.

    Raises:
        ValueError and others of `MALFORMED`: there is something else than a trainer writes.
    """
    metadata, tensors = checkpoint.metadata, checkpoint.tensors["trainer"]
    rng = rng_of(metadata["rng"])
    torch.Generator().set_state(tensors["torch_rng"])
    step, updates = (_count(name, metadata[name]) for name in ("step", "updates"))
    elapsed = float(metadata["elapsed_seconds"])
    if not 0 <= elapsed < math.inf:
        raise ValueError(f"elapsed_seconds: expected a finite number, not below 0, got {elapsed}")
    arrays = _as_arrays(tensors)
    collector = trainer.collector
    if "recent_successes" not in arrays:  # a checkpoint of an earlier version
        arrays["recent_successes"] = np.full(len(arrays["recent_returns"]), np.nan)
    _check_arrays(collector.episodes.state(), arrays, may_be_nan=("recent_successes",))
    counts = {len(arrays[f"recent_{name}"]) for name in ("returns", "lengths", "successes")}
    if len(counts) > 1 or len(arrays["finished"]) != 1:
        raise ValueError("recent_returns, recent_lengths, recent_successes: expected as many of each")
    if collector.reward_normalizer is not None and "reward_statistics" in arrays:
        _check_arrays(collector.reward_normalizer.state(), arrays)
        if arrays["reward_statistics"].shape != (3,) or (arrays["reward_statistics"][1:] < 0).any():
            raise ValueError(f"reward_statistics: expected 3 numbers, got {arrays['reward_statistics']}")
    optimizer = SavedOptimizer.of(checkpoint, trainer.policy)
    return _TrainerState(optimizer, _rates(trainer.config, metadata), rng, step, updates, elapsed, arrays)


def _rates(config: PPOConfig, metadata: Mapping[str, Any]) -> list[float] | None:
    """Return the learning rates to continue with: those that a callback or a scheduler set, if any could."""
    rates = metadata.get(_RATES)  # not in checkpoints of earlier versions
    if rates is None or config.anneal_lr or metadata["ppo"]["learning_rate"] != config.learning_rate:
        return None
    if not all(isinstance(rate, int | float) and 0 <= rate < math.inf for rate in rates):
        raise ValueError(f"{_RATES}: expected finite numbers, not below 0, got {rates!r:.80}")
    return [float(rate) for rate in rates]


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**12:
        raise ValueError(f"{name}: expected an integer from 0 to 10^12, got {value!r:.50}")
    return value


def _check_arrays(
    ours: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]], may_be_nan: Sequence[str] = ()
) -> None:
    """Check that `theirs` has the names of `ours` as arrays of one dimension, its dtypes, finite numbers, and
    no count below 0."""
    for name, own in ours.items():
        given = theirs[name]
        if given.ndim != 1 or given.dtype != own.dtype:
            raise ValueError(f"{name}: expected {own.dtype} (n,), got {given.dtype} {given.shape}")
        numbers = given[~np.isnan(given)] if name in may_be_nan else given
        if not np.isfinite(numbers).all() or (given.dtype.kind == "i" and (given < 0).any()):
            raise ValueError(f"{name}: expected finite numbers and no count below 0")


def _restored_environments(
    trainer: Trainer, checkpoint: Checkpoint, extra: Mapping[str, NDArray[Any]]
) -> Shown | None:
    """Put the environments where they were; return their observations, or None if they start new episodes."""
    is_alone = trainer.collector.ranks.size == 1
    same_lanes = is_alone and checkpoint.metadata["num_envs"] == trainer.venv.num_envs
    active = extra.get("active")
    if same_lanes and active is not None:
        check_arrays("trainer", {"active": np.zeros(trainer.venv.num_envs, bool)}, {"active": active})
    evolving = evolving_layer(trainer.venv)
    before = {} if evolving is None else evolving.get_training_state()
    if TRAINING_STATE in checkpoint.metadata:
        if evolving is not None:
            evolving.set_training_state(checkpoint.metadata[TRAINING_STATE])
        else:
            active = None  # lanes that opponents played are the learner's now
            if "pool" in checkpoint.metadata[TRAINING_STATE]:
                warnings.warn(
                    f"checkpoint {checkpoint.path} has opponents, and the environments of this training have"
                    " none: the policy now plays all lanes. Make them by past_self_play to go on as before",
                    stacklevel=2,
                )
    if "environments" in checkpoint.tensors and same_lanes and isinstance(trainer.venv, StatefulVectorEnv):
        try:
            batch = trainer.venv.set_state(_as_arrays(checkpoint.tensors["environments"]))
        except MALFORMED:
            if evolving is not None:
                evolving.set_training_state(before)
            raise
        if active is not None:  # without opponents, the lanes that they played have actors again
            for part in batch.actions.values():
                active = active | (part.actors.lengths > 0)
        return Shown(batch, active)
    return None


def _as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
