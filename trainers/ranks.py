"""`Ranks`: the processes that train one policy together, each in environments of its own.

They are the ranks of the default process group of `torch.distributed`, such as `torchrun` starts them. All
ranks hold the same policy and take the same gradient steps; docs/scaling.md says what they exchange.

Shape alphabet: T steps, E environments of this rank, W environments of all ranks, B rows of all ranks.
"""

from __future__ import annotations

import os
import platform
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed, nn

from ..policies import Policy
from ..policies.rogue_net import InputNorm
from ..ragged.compiled import compiled
from ..version import __version__
from .advantages import Moments, moments

_T = TypeVar("_T")

#: How long a rank waits for the others: longer than a rollout and an update take.
_PATIENCE = timedelta(minutes=30)


class RankError(RuntimeError):
    """Another rank ended, hangs, or does something else than this one."""


class Ranks:
    """This process and those that it trains with; by itself, every method returns what it was given.

    Every rank calls the methods in the same order: each waits for all ranks, and raises RankError if one is
    gone.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @classmethod
    def current(cls) -> Ranks:
        """Return those of the default process group; without one, this process alone.

        Raises:
            ValueError: the group can't exchange what lies in the host's memory.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            return cls()
        backends, size = distributed.get_backend_config(), distributed.get_world_size()
        if size > 1 and "cpu:" not in backends:
            raise ValueError(
                f"process group: expected a backend for the CPU, got {backends!r}. Use"
                " torch.distributed.init_process_group('gloo')"
            )
        return cls(distributed.get_rank(), size)

    @property
    def is_first(self) -> bool:
        """True for the rank that writes the run folder and shows progress."""
        return self.rank == 0

    def gather(self, value: _T) -> list[_T]:
        """Return the values that the ranks gave, in order. They are pickled."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._contact():
            distributed.all_gather_object(values, value)
        return values

    def from_first(self, value: _T) -> _T:
        """Return what rank 0 gave."""
        if self.size == 1:
            return value
        values = [value]
        with self._contact():
            distributed.broadcast_object_list(values)
        return values[0]

    def gather_numbers(self, *numbers: float) -> NDArray[np.float64]:
        """Return the numbers that the ranks gave, (ranks, numbers), in one exchange; `gather` makes two."""
        own = torch.tensor(numbers, dtype=torch.float64)
        of_all = own.repeat(self.size, 1)
        if self.size > 1:
            with self._contact():
                distributed.all_gather(list(of_all.unbind()), own)
        return of_all.numpy()

    def total(self, *numbers: int) -> list[int]:
        """Return the sums of the numbers over the ranks."""
        return [int(number) for number in self.gather_numbers(*numbers).sum(0)]

    def concatenate(self, array: NDArray[Any]) -> tuple[NDArray[Any], slice]:
        """Return the ranks' arrays behind each other, and where that of this rank lies."""
        arrays = self.gather(array)
        start = sum(map(len, arrays[: self.rank]))
        return np.concatenate(arrays), slice(start, start + len(array))

    def moments(self, numbers: NDArray[Any]) -> Moments:
        """Return the moments of the numbers of all ranks together."""
        if self.size == 1:
            return moments(numbers)
        counts, means, squares = self.gather_numbers(*moments(numbers)).T
        mean = float(counts @ means / max(counts.sum(), 1))
        return int(counts.sum()), mean, float(squares.sum() + counts @ (means - mean) ** 2)

    def rows_behind_each_other(self, num_rows: int) -> NDArray[np.int64] | None:
        """Return `rows_of_rank` where the rows of rank 0 come first; None for a process by itself."""
        if self.size == 1:
            return None
        rows, own = self.concatenate(np.full(num_rows, -1))
        rows[own] = np.arange(num_rows)
        return rows

    def add_gradients(
        self, parameters: Sequence[nn.Parameter], losses: Mapping[str, float]
    ) -> dict[str, float]:
        """Replace the gradients by their sums over the ranks; return the sums of the losses.

        A parameter that has a gradient on no rank keeps none.
        """
        if self.size == 1:
            return dict(losses)
        given = [parameter.grad for parameter in parameters]
        gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, given, strict=True)]
        # On the host, as ranks may share a GPU: there each wait takes long, so one copy goes each way.
        flat = torch.cat([gradient.flatten() for gradient in gradients]).cpu()
        has = flat.new_tensor([gradient is not None for gradient in given])
        numbers = flat.new_tensor(list(losses.values()))
        summed = torch.cat([flat, has, numbers])
        with self._contact():
            distributed.all_reduce(summed)
        flat, has, numbers = summed.split([len(flat), len(has), len(numbers)])
        parts = flat.to(parameters[0].device).split([parameter.numel() for parameter in parameters])
        for parameter, gradient, count in zip(parameters, parts, has.tolist(), strict=True):
            parameter.grad = gradient.view_as(parameter) if count else None
        return dict(zip(losses, numbers.tolist(), strict=True))

    def action_rng(self, rng: np.random.Generator, seed: int, step: int) -> np.random.Generator:
        """Return what draws this rank's actions: `rng`, but of several ranks each one's own."""
        return rng if self.size == 1 else np.random.default_rng((seed, step, self.rank))

    def share_statistics(self, module: nn.Module) -> None:
        """Let the input statistics of `module` take in what every rank has seen, and nothing else."""
        for part in module.modules():
            if isinstance(part, InputNorm):
                part.share = self.gather if self.size > 1 else None

    def check_alike(self, what: Mapping[str, Any]) -> None:
        """Check that all ranks gave the same.

        Raises:
            ValueError: they did not; the message names rank and entry.
        """
        what = {
            "entitize": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            **what,
        }
        first, *others = self.gather(what)
        for rank, other in enumerate(others, 1):
            for name in [*first, *(name for name in other if name not in first)]:
                theirs, ours = other.get(name, "absent"), first.get(name, "absent")
                if theirs != ours:
                    raise ValueError(
                        f"rank {rank}: {name}: expected {ours!r:.200}, as rank 0 has it, got {theirs!r:.200}."
                        " Start all ranks with the same configuration and versions"
                    )

    def check_policy(self, policy: Policy) -> None:
        """Check that all ranks hold the same weights and statistics.

        A policy that computes statistics of its own may not.

        Raises:
            RankError: they do not; the message names rank and tensor.
        """
        if self.size == 1:
            return
        state = policy.state_dict()
        place = next(iter(state.values())).device
        parts = [t.detach().to(place).contiguous().flatten().view(torch.uint8) for t in state.values()]
        block = torch.cat(parts).cpu().split([len(part) for part in parts])  # a GPU is waited for once
        sums = {name: zlib.crc32(part.numpy()) for name, part in zip(state, block, strict=True)}
        first, *others = self.gather(sums)
        for rank, other in enumerate(others, 1):
            for name, number in first.items():
                if other[name] != number:
                    raise RankError(
                        f"rank {rank}: {name} of {type(policy).__name__} differs from that of rank 0 after an"
                        " update. Statistics of a policy of your own must be the same on all ranks"
                    )

    @contextmanager
    def _contact(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # of gloo
            reason = str(error).splitlines()[0]
            raise RankError(
                f"rank {self.rank} of {self.size}: another rank ended or hangs: {reason}"
            ) from error


#: A process that trains by itself.
ALONE = Ranks()


def rows_of_rank(active: NDArray[np.bool_], lanes: slice) -> NDArray[np.int64]:
    """Return for each row of all ranks its index among those of the environments `lanes`, else -1: (B,).

    Rows are time-major: the steps of all environments at one time, those that are `active` (T, W), then those
    at the next.
    """
    rows = np.empty(np.count_nonzero(active), np.int64)
    _number_rows(active, lanes.start, lanes.stop, rows)
    return rows


def own_rows(rows_of_all: NDArray[np.int64] | None, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return this rank's samples among `rows` of all, by `rows_of_rank`; None: with one process all are."""
    if rows_of_all is None:
        return rows
    own = np.empty(len(rows), np.int64)
    return own[: _take_own(rows_of_all, rows, own)].copy()


@compiled(nogil=True)
def _number_rows(active: Any, start: int, stop: int, rows: Any) -> None:
    row = own = 0
    for t in range(active.shape[0]):
        for lane in range(active.shape[1]):
            if active[t, lane]:
                is_own = start <= lane < stop
                rows[row] = own if is_own else -1
                own += is_own
                row += 1


@compiled(nogil=True)
def _take_own(rows_of_all: Any, rows: Any, own: Any) -> int:
    """Write this rank's samples among `rows` into `own`; return how many they are."""
    count = 0
    for row in rows:
        if rows_of_all[row] >= 0:
            own[count] = rows_of_all[row]
            count += 1
    return count


def num_ranks() -> int:
    """Return how many processes train together, which each knows before it has met the others."""
    if not distributed.is_available():
        return 1
    started = int(os.environ.get("WORLD_SIZE", "1"))
    return distributed.get_world_size() if distributed.is_initialized() else started


@contextmanager
def process_group() -> Iterator[Ranks]:
    """Join the process group that `torchrun` has started this process for; alone without one.

    Raises:
        RankError: the others can't be reached.
    """
    if num_ranks() == 1 or distributed.is_initialized():
        yield Ranks.current()
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    # Imported later, as torch._dynamo does, this module would keep the group: the group's threads would live
    # on, and abort the process where they still run while Python ends.
    import_module("torch.distributed.nn")
    try:
        distributed.init_process_group("gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise RankError(f"rank {os.environ.get('RANK')}: can't join the other ranks: {error}") from error
    try:
        yield Ranks.current()
    finally:
        distributed.destroy_process_group()
