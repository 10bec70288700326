"""`DeviceUpdate`: gradient steps on a GPU, one transfer and one CUDA graph each."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...policies.engines.graphs.capacity import Capacities, Capacity
from ...policies.engines.graphs.captured_graphs import Graphs
from ...policies.engines.graphs.cuda import matrix_precision
from ...policies.engines.graphs.packing import Packing
from ...policies.engines.graphs.staging import Staging
from ...policies.engines.graphs.static_network import Plan, StaticForm, hides
from ...policies.policy import Policy
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..rollout import Samples
from ..runs.guard import check_losses
from .device import device_of
from .losses import count, normalize_advantages
from .static_losses import NUMBERS, loss_fields, static_losses, write_loss

_log = logging.getLogger(__name__)


class DeviceUpdate:
    """Makes the gradient steps of an epoch: forward, loss, backward, clipping and AdamW.

    Minibatches are padded to capacities that repeat, and each is sent in one transfer while the one before is
    computed. Nothing is read back before the epoch is over. On the CPU the same is computed, without graphs.
    """

    def __init__(
        self, form: StaticForm, module: nn.Module, optimizer: torch.optim.Optimizer, config: PPOConfig
    ) -> None:
        self.form = form
        self.graphs = Graphs(self._step, form.device, self._token)
        self._module = module
        self._parameters = list(module.parameters())
        self._optimizer = optimizer
        self._config = config
        self._names = list(form.heads)
        self._capacities = Capacities()
        self._staging = Staging(form.device)
        self._packings: dict[Capacity, Packing] = {}
        self._refused = False

    def takes(self, samples: Samples) -> bool:
        """Whether it can learn from them: no entity is hidden, and minibatches are not split. Logs the first
        refusal."""
        split = self._config.microbatch_size is not None
        refused = split or hides(samples.observations)
        if refused and not self._refused:
            self._refused = True
            _tell_ragged("minibatches are split" if split else "entities are hidden")
        return not refused

    def epoch(
        self, samples: Samples, minibatches: Sequence[NDArray[np.int64]], ent_coef: float
    ) -> list[dict[str, float]]:
        """One gradient step for each of the `minibatches`, indices into `samples`; returns their losses.

        Raises:
            NonFiniteError: a loss or a gradient of one of them was not finite; later steps were made as well.
        """
        with matrix_precision(self._config.precision):
            results = [self._descend(samples.gather(indices), ent_coef) for indices in minibatches]
        rows: list[list[float]] = torch.stack(results).tolist()
        losses = [dict(zip((*NUMBERS, "grad_norm"), row, strict=True)) for row in rows]
        for row in losses:
            check_losses(row, self._module, row["grad_norm"])
        return losses

    def _descend(self, minibatch: Samples, ent_coef: float) -> Tensor:
        counts = count(minibatch, self._config.joint_log_prob)
        if self._config.norm_adv:
            minibatch = normalize_advantages(minibatch)
        plan = Plan(self.form, minibatch.observations, minibatch.actions)
        capacity = self._capacities.fit(plan.sizes)

        def write(arrays: dict[str, NDArray[Any]]) -> None:
            plan.write(capacity, arrays)
            write_loss(arrays, dict(capacity), minibatch, counts, ent_coef)

        with self._staging.sent(self._packing(capacity), write) as block:
            return self.graphs.run(capacity, block)

    def _step(self, capacity: Capacity, block: Tensor) -> Tensor:
        """One gradient step; returns `NUMBERS` and the norm of the gradients (8,)."""
        arrays = self._packing(capacity).tensors(block)
        self._optimizer.zero_grad(set_to_none=True)
        evaluation = self.form.evaluate(capacity, arrays)
        total, numbers = static_losses(evaluation, self._names, arrays, self._config)
        total.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm)
        self._optimizer.step()
        return torch.cat([numbers, norm.detach().to(numbers.dtype).reshape(1)])

    def _packing(self, capacity: Capacity) -> Packing:
        if capacity not in self._packings:
            fields = self.form.fields(capacity)
            fields.update(loss_fields(self._names, dict(capacity)))
            self._packings[capacity] = Packing(fields)
        return self._packings[capacity]

    def _token(self) -> Hashable:
        """Also of the optimizer's state, which is replaced when it is loaded."""
        states = self._optimizer.state
        moments = [states[p]["exp_avg"].data_ptr() for p in self._parameters if states.get(p)]
        rates = [group["lr"] for group in self._optimizer.param_groups]
        held = [rate.data_ptr() for rate in rates if isinstance(rate, Tensor)]
        return self.form.token(), tuple(moments), tuple(held)


def device_update(policy: Policy, optimizer: torch.optim.Optimizer, config: PPOConfig) -> DeviceUpdate | None:
    """The updates of a policy that is on a GPU; None where it is not, or (which is logged) where it has no
    static form.

    Raises:
        ValueError: the precision is one that it would need for.
    """
    if not isinstance(policy, nn.Module) or device_of(policy).type != "cuda":
        return None
    problem = f"{type(policy).__name__} has none"
    if isinstance(policy, RogueNet):
        problem = policy.static_obstacle or ""
        if not problem:
            form = policy.static_form(config.precision)
            return DeviceUpdate(form, policy, optimizer, config)
    if config.precision == "bf16":
        raise ValueError(f"precision='bf16' needs a policy with a static form: {problem}")
    _tell_ragged(problem)
    return None


def _tell_ragged(reason: str) -> None:
    _log.info("updates on the GPU launch kernels one at a time, on ragged arrays: %s", reason)
