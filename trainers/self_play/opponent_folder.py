"""`OpponentFolder`: the folder in which a run keeps the networks that it plays against.

runs/first/opponents/
    step_000000100000/            a snapshot, written like a checkpoint; `load_policy` reads it
    fixed_0/step_000000250000/    a copy of a checkpoint of another run
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ...policies import Policy, read_metadata
from ..runs.checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoint_paths,
    clear_leftovers,
    delete_checkpoint,
    network_metadata,
    read_checkpoint,
    step_of,
    write_checkpoint,
)
from ..runs.trainer_state import TRAINING_STATE


class OpponentFolder:
    """The folder `opponents` of a run. Snapshots are named by step, fixed opponents by index."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def save(self, step: int, policy: Policy) -> None:
        """Write the snapshot of `step`, replacing one that no checkpoint needs.

        Raises:
            CheckpointError: a checkpoint of the run needs the existing one, or the system refused to write.
        """
        if step in (self._steps_in_checkpoints() or ()):
            raise CheckpointError(
                f"{self.path}: a checkpoint of the run in {self.path.parent} needs its snapshot of step"
                f" {step}. Resume that run, or give the pool the folder of the new one"
            )
        write_checkpoint(self.path, step, {"policy": policy.state_dict()}, network_metadata(policy))

    def read(self, step: int) -> Checkpoint:
        """Read the snapshot of `step`.

        Raises:
            CheckpointError: it is missing or corrupt.
        """
        return read_checkpoint(self.path / f"step_{step:012d}")

    def save_fixed(self, place: int, source: str, checkpoint: Checkpoint) -> None:
        """Keep a copy of another run's checkpoint, which that run may delete or continue from.

        Raises:
            CheckpointError: the system refused to write.
        """
        folder = self.path / f"fixed_{place}"
        weights: Mapping[str, Tensor] = checkpoint.tensors["policy"]
        metadata = {name: checkpoint.metadata[name] for name in ("policy", "spaces")}
        step = int(checkpoint.metadata["step"])
        write_checkpoint(folder, step, {"policy": weights}, {**metadata, "source": source})
        for other in checkpoint_paths(folder):
            if step_of(other) != step:
                delete_checkpoint(other)

    def find_fixed(self, place: int, source: str) -> Path | None:
        """Return the copy of `source`, if there is one."""
        for path in checkpoint_paths(self.path / f"fixed_{place}"):
            if read_checkpoint(path).metadata.get("source") == source:
                return path
        return None

    def purge(self, steps: set[int]) -> None:
        """Delete the snapshots that are neither of `steps` nor needed by a checkpoint of the run."""
        needed = self._steps_in_checkpoints()
        if needed is None:
            return
        clear_leftovers(self.path)
        for path in checkpoint_paths(self.path):
            if step_of(path) not in steps | needed:
                delete_checkpoint(path)

    def _steps_in_checkpoints(self) -> set[int] | None:
        """Return the steps of the snapshots in the run's checkpoints; None: a checkpoint can't be read."""
        steps: set[int] = set()
        for path in checkpoint_paths(self.path.parent / "checkpoints"):
            try:
                metadata = read_metadata(path)
                steps |= {int(past["step"]) for past in metadata[TRAINING_STATE]["pool"]["past"]}
            except KeyError:  # of before there was a pool
                continue
            except (OSError, ValueError, TypeError, OverflowError):
                return None
        return steps


def missing_folder() -> CheckpointError:
    """Return the error that there is no folder to read snapshots from."""
    return CheckpointError(
        "the opponent pool has no folder to read its snapshots from. Give it the folder of the run that is"
        ' resumed: OpponentPool(..., folder="<run>/opponents")'
    )
