"""`GraphLearner`: gradient steps on arrays of fixed shapes; on a GPU one transfer and one CUDA graph each."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, cast
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from ...policies import Evaluation
from ...policies.engines.graphs import (
    Capacities,
    Capacity,
    Field,
    Graphs,
    Packing,
    Plan,
    Precision,
    Recent,
    Sizes,
    Staging,
    StaticForm,
)
from ...policies.rogue_net import RogueNet
from ..config import PPOConfig
from ..ranks import ALONE, Ranks
from ..rollout import Samples
from ..runs.guard import check_losses
from .losses import NUMBERS, Counts, count, loss_terms, normalize_advantages
from .optimizer import forget_gradients, is_capturable
from .torch_learner import TorchLearner


class GraphLearner(TorchLearner):
    """Makes the gradient steps of `TorchLearner` for a RogueNet with `engine="graphs"`.

    Minibatches are padded to capacities that repeat, and each is sent in one transfer while the one before is
    computed. On a GPU one graph holds the whole step, and nothing is read back before a step's numbers are
    read. For several ranks, parts of minibatches, or an optimizer of your own that no graph can hold
    (`is_capturable`), it holds the gradients and losses; the rest of the step is that of `TorchLearner`. On
    the CPU the same is computed without graphs.
    """

    policy: RogueNet
    is_whole: bool  # a graph holds the whole step
    _forms = 0  # that were used, with the present one

    def __init__(
        self, policy: RogueNet, optimizer: Optimizer, config: PPOConfig, ranks: Ranks = ALONE
    ) -> None:
        self._use(policy.static_form(cast(Precision, config.precision)))
        super().__init__(policy, optimizer, config, ranks)
        #: Those of an update that an error ended are dropped with it.
        self._unread: list[ref[_Numbers]] = []

    def _use(self, form: StaticForm) -> None:
        """Compute with `form`, whose arrays and parameters may be others than those of the last one."""
        self.form = form
        self._forms += 1
        self._names = list(form.heads)
        self._capacities = Capacities()
        self._staging = Staging(form.device)
        self._packings = Recent[Packing]()
        self._with_gradients = Recent[list[nn.Parameter]]()  # the parameters that get gradients

    def _take_optimizer(self) -> None:
        """Choose what the graphs hold, and make new ones."""
        is_fit = self.form.device.type == "cpu" or is_capturable(self.optimizer)
        self.is_whole = is_fit and self.ranks.size == 1 and self.config.microbatch_size is None
        function = self._make_step if self.is_whole else self._differentiate
        self.graphs = Graphs(function, self.form.device, self._token)

    def step(self, minibatch: Samples, ent_coef: float) -> Mapping[str, float]:
        """Start one gradient step; reading the numbers waits for it. See `Learner.step`."""
        if self.is_whole and self.form.device.type != "cpu" and not is_capturable(self.optimizer):
            self.optimizer = self.optimizer  # its learning rate was replaced by a number
        if not (self.is_whole and self._is_ready()):
            return super().step(minibatch, ent_coef)
        counts = count(minibatch, self.config.joint_log_prob)
        if self.config.norm_adv:
            minibatch = normalize_advantages(minibatch)
        _, result = self._run(minibatch, counts, ent_coef)
        numbers = _Numbers(self, result)
        self._unread.append(ref(numbers))
        return numbers

    def differentiate(self, part: Samples, counts: Counts, ent_coef: float) -> dict[str, float]:
        """Add the gradients of a part of a minibatch; return its share of the losses."""
        if not self._is_ready():
            return super().differentiate(part, counts, ent_coef)
        capacity, result = self._run(part, counts, ent_coef)
        found = self._with_gradients[capacity]
        *gradients, numbers = result.split([*(p.numel() for p in found), len(NUMBERS)])
        for parameter, flat in zip(found, gradients, strict=True):
            gradient = flat.view_as(parameter).to(parameter.dtype)
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        return dict(zip(NUMBERS, numbers.tolist(), strict=True))

    def _is_ready(self) -> bool:
        """Return False where torch has to compute: modules compute otherwise, or parameters have hooks."""
        if self.policy.engine.name != "graphs":
            return False
        form = self.policy.static_form(self.form.precision)
        if form is not self.form:  # modules were replaced, or the network was moved, since the last step
            is_moved = form.device != self.form.device
            self._use(form)
            self.parameters = list(self.policy.parameters())
            if is_moved:
                self.optimizer = self.optimizer  # makes graphs on the other device
        return not any(p._backward_hooks or p._post_accumulate_grad_hooks for p in self.parameters)

    def _run(self, part: Samples, counts: Counts, ent_coef: float) -> tuple[Capacity, Tensor]:
        """Send a minibatch or a part of one; return its capacity, and what the graphs' function returns."""
        plan = Plan(self.form, part.observations, part.actions)
        capacity = self._capacities.fit(plan.sizes)

        def write(arrays: dict[str, NDArray[Any]]) -> None:
            plan.write(capacity, arrays)
            write_loss(arrays, dict(capacity), part, counts, ent_coef)

        with self._staging.sent(self._packing(capacity), write) as block:
            return capacity, self.graphs.run(capacity, block)

    def read(self) -> None:
        """Wait for all steps and read their numbers, in one transfer.

        Raises:
            NonFiniteError: a loss or a gradient of one of them is not finite; later steps were made as well.
        """
        unread = [numbers for found in self._unread if (numbers := found()) is not None]
        self._unread = []
        if not unread:
            return
        rows: list[list[float]] = torch.stack([numbers.on_device for numbers in unread]).tolist()
        for numbers, row in zip(unread, rows, strict=True):
            numbers.known = dict(zip((*NUMBERS, "grad_norm"), row, strict=True))
        for numbers in unread:
            check_losses(numbers.known, self.policy, numbers.known["grad_norm"])

    def _make_step(self, capacity: Capacity, block: Tensor) -> Tensor:
        """Make one gradient step; return `NUMBERS` and the norm of the gradients (8,)."""
        total, numbers = self._losses(capacity, block)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        forget_gradients(self.frozen)
        limit = self.config.max_grad_norm
        norm = nn.utils.clip_grad_norm_(self.parameters, math.inf if limit is None else limit)
        self.optimizer.step()
        return torch.cat([numbers, norm.detach().to(numbers.dtype).reshape(1)])

    def _differentiate(self, capacity: Capacity, block: Tensor) -> Tensor:
        """Return all gradients behind each other, then `NUMBERS`; each `grad` stays as it was."""
        total, numbers = self._losses(capacity, block)
        parameters = [parameter for parameter in self.parameters if parameter.requires_grad]
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        found = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
        self._with_gradients[capacity] = [parameter for parameter, _ in found]
        return torch.cat([*(gradient.flatten().to(numbers.dtype) for _, gradient in found), numbers])

    def _losses(self, capacity: Capacity, block: Tensor) -> tuple[Tensor, Tensor]:
        arrays = self._packing(capacity).tensors(block)
        evaluation = self.form.evaluate(capacity, arrays)
        return static_losses(evaluation, self._names, arrays, self.config)

    def _packing(self, capacity: Capacity) -> Packing:
        if capacity not in self._packings:
            fields = self.form.fields(capacity)
            fields.update(loss_fields(self._names, dict(capacity)))
            self._packings[capacity] = Packing(fields)
        return self._packings[capacity]

    def _token(self) -> Hashable:
        """Identity of all that a graph holds on to: form and parameters, which of them learn, how the value's
        loss is computed, and the optimizer's state, which is replaced when it is loaded."""
        held = (
            self._forms,
            self.form.token(),
            tuple(p.requires_grad for p in self.parameters),
            self.config.clip_vloss,
        )
        if not self.is_whole:
            return held
        states = [self.optimizer.state.get(p, {}) for p in self.parameters]
        moments = [m.data_ptr() for state in states for m in state.values() if isinstance(m, Tensor)]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        places = [rate.data_ptr() for rate in rates if isinstance(rate, Tensor)]
        return held, tuple(moments), tuple(places), len(self.frozen)


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


def loss_fields(names: list[str], sizes: Sizes) -> dict[str, Field]:
    """The arrays that the loss reads, for actions of these names and these capacities."""
    b, u = sizes["steps"], sum(sizes[f"action/{name}/actors"] for name in names)
    fields = {
        "loss/old": Field((u,), np.float32),  # log-probabilities when the actions were taken
        "loss/padding": Field((u,), bool),
        "loss/step": Field((u,), np.int64),
        "loss/no_actor": Field((b,), bool),  # no actor at the step
        "loss/scalars": Field((3,), np.float32),  # 1 / units, 1 / steps, entropy bonus
    }
    for name in ("advantages", "returns", "values"):
        fields[f"loss/{name}"] = Field((b,), np.float32)
    return {**fields, "loss/no_step": Field((b,), bool)}


def write_loss(
    arrays: Mapping[str, NDArray[Any]], sizes: Sizes, samples: Samples, counts: Counts, ent_coef: float
) -> None:
    """Fill them from a minibatch, whose advantages are normalized already where the configuration says so."""
    old, padding, step = (arrays[f"loss/{name}"] for name in ("old", "padding", "step"))
    old[:], padding[:], step[:] = 0, True, 0
    no_actor = arrays["loss/no_actor"]
    no_actor[:] = True
    place = 0
    for name, chosen in samples.actions.items():
        part = slice(place, place + chosen.num_items)
        old[part], padding[part] = samples.log_probs[name].values, False
        step[part] = chosen.sequence_indices()
        no_actor[: len(samples)] &= chosen.lengths == 0
        place += sizes[f"action/{name}/actors"]
    for name in ("advantages", "returns", "values"):
        array = arrays[f"loss/{name}"]
        array[: len(samples)], array[len(samples) :] = getattr(samples, name), 0
    arrays["loss/no_step"][:] = np.arange(sizes["steps"]) >= len(samples)
    arrays["loss/scalars"][:] = 1 / counts.units, 1 / counts.steps, ent_coef


def static_losses(
    evaluation: Evaluation, names: list[str], arrays: Mapping[str, Tensor], config: PPOConfig
) -> tuple[Tensor, Tensor]:
    """The minibatch's loss with gradients, and `NUMBERS` (7,) without; padding has no part in either."""
    dtype = evaluation.values.dtype
    padding, step, no_step = arrays["loss/padding"], arrays["loss/step"], arrays["loss/no_step"]
    per_unit, per_step, ent_coef = arrays["loss/scalars"].to(dtype).unbind()
    advantages, returns, old_values = (
        arrays[f"loss/{name}"].to(dtype) for name in ("advantages", "returns", "values")
    )
    log_ratio = torch.cat([evaluation.log_probs[name] for name in names]) - arrays["loss/old"].to(dtype)
    # masked_fill, not where: that one copies its number from the host, which no graph can hold.
    log_ratio = log_ratio.masked_fill(padding, 0.0)
    entropy = torch.cat([evaluation.entropies[name] for name in names]).masked_fill(padding, 0.0)
    if config.joint_log_prob:
        nothing = log_ratio.new_zeros(len(advantages))
        log_ratio, entropy = nothing.index_add(0, step, log_ratio), nothing.index_add(0, step, entropy)
        padding = arrays["loss/no_actor"]
    else:
        advantages = advantages.index_select(0, step)
    return loss_terms(
        log_ratio,
        entropy,
        advantages.masked_fill(padding, 0.0),
        evaluation.values.masked_fill(no_step, 0.0),
        returns,
        old_values,
        per_unit,
        per_step,
        ent_coef,
        config,
    )
