"""`GraphLearner`: gradient steps on arrays of fixed shapes; on a GPU one transfer and one CUDA graph each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from ...policies.engines.graphs.capacity import Capacities, Capacity
from ...policies.engines.graphs.captured_graphs import Graphs
from ...policies.engines.graphs.packing import Packing
from ...policies.engines.graphs.staging import Staging
from ...policies.engines.graphs.static_network import Plan, Precision
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..rollout import Samples
from ..runs.guard import check_losses
from .losses import count, normalize_advantages
from .optimizer import forget_gradients
from .static_losses import NUMBERS, loss_fields, static_losses, write_loss


class GraphLearner:
    """Makes the gradient steps of `TorchLearner` for a RogueNet with `engine="graphs"`; a `Learner`.

    Minibatches are padded to capacities that repeat, and each is sent in one transfer while the one before is
    computed. Nothing is read back before somebody reads a step's numbers. On the CPU the same is computed,
    without graphs. It has not been measured on a GPU yet.
    """

    def __init__(self, policy: RogueNet, module: nn.Module, optimizer: Optimizer, config: PPOConfig) -> None:
        self.form = form = policy.static_form(cast(Precision, config.precision))
        self.graphs = Graphs(self._make_step, form.device, self._token)
        self._module = module
        self._parameters = list(module.parameters())
        self.frozen: Sequence[nn.Parameter] = ()
        self.optimizer = optimizer
        self._config = config
        self._names = list(form.heads)
        self._capacities = Capacities()
        self._staging = Staging(form.device)
        self._packings: dict[Capacity, Packing] = {}
        self._unread: list[_Numbers] = []

    def step(self, minibatch: Samples, ent_coef: float) -> Mapping[str, float]:
        """Start one gradient step; reading the numbers waits for it. See `Learner.step`."""
        counts = count(minibatch, self._config.joint_log_prob)
        if self._config.norm_adv:
            minibatch = normalize_advantages(minibatch)
        plan = Plan(self.form, minibatch.observations, minibatch.actions)
        capacity = self._capacities.fit(plan.sizes)

        def write(arrays: dict[str, NDArray[Any]]) -> None:
            plan.write(capacity, arrays)
            write_loss(arrays, dict(capacity), minibatch, counts, ent_coef)

        with self._staging.sent(self._packing(capacity), write) as block:
            numbers = _Numbers(self, self.graphs.run(capacity, block))
        self._unread.append(numbers)
        return numbers

    def read(self) -> None:
        """Wait for all steps and read their numbers, in one transfer.

        Raises:
            NonFiniteError: a loss or a gradient of one of them is not finite; later steps were made as well.
        """
        unread, self._unread = self._unread, []
        rows: list[list[float]] = torch.stack([numbers.on_device for numbers in unread]).tolist()
        for numbers, row in zip(unread, rows, strict=True):
            numbers.known = dict(zip((*NUMBERS, "grad_norm"), row, strict=True))
        for numbers in unread:
            check_losses(numbers.known, self._module, numbers.known["grad_norm"])

    def _make_step(self, capacity: Capacity, block: Tensor) -> Tensor:
        """Make one gradient step; return `NUMBERS` and the norm of the gradients (8,)."""
        arrays = self._packing(capacity).tensors(block)
        self.optimizer.zero_grad(set_to_none=True)
        evaluation = self.form.evaluate(capacity, arrays)
        total, numbers = static_losses(evaluation, self._names, arrays, self._config)
        total.backward()
        forget_gradients(self.frozen)
        norm = nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        self.optimizer.step()
        return torch.cat([numbers, norm.detach().to(numbers.dtype).reshape(1)])

    def _packing(self, capacity: Capacity) -> Packing:
        if capacity not in self._packings:
            fields = self.form.fields(capacity)
            fields.update(loss_fields(self._names, dict(capacity)))
            self._packings[capacity] = Packing(fields)
        return self._packings[capacity]

    def _token(self) -> Hashable:
        """Identity of all that a graph holds on to: parameters, which of them are frozen, and the optimizer's
        state, which is replaced when it is loaded."""
        states = self.optimizer.state
        moments = [states[p]["exp_avg"].data_ptr() for p in self._parameters if states.get(p)]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        held = [rate.data_ptr() for rate in rates if isinstance(rate, Tensor)]
        return self.form.token(), tuple(moments), tuple(held), len(self.frozen)


class _Numbers(Mapping[str, float]):
    """The losses of one step, read from the device when the first of them is asked for."""

    def __init__(self, learner: GraphLearner, on_device: Tensor) -> None:
        self.on_device = on_device  # (8,)
        self.known: dict[str, float] = {}
        self._learner = learner

    def __getitem__(self, name: str) -> float:
        if not self.known:
            self._learner.read()
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*NUMBERS, "grad_norm"))

    def __len__(self) -> int:
        return len(NUMBERS) + 1
