"""Devices, optimizers and gradient clipping: AdamW is one kernel call over all parameters on the CPU."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...policies.kernels.tiles.simd import floats_at, kernel

if TYPE_CHECKING:
    from ...policies import Policy
    from ..cloning.cloning_config import BehaviorCloningConfig
    from ..config import PPOConfig


def are_plain(tensors: Iterable[Tensor]) -> bool:
    """Return True if kernels can read `tensors` in place: float32, contiguous, on the CPU."""
    return all(t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in tensors)


def addresses(tensors: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return the addresses of the tensors (K,); read them at every use, because tensors may move."""
    return np.array([tensor.data_ptr() for tensor in tensors], np.int64)


def sizes(tensors: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return the sizes of the tensors (K,)."""
    return np.array([tensor.numel() for tensor in tensors], np.int64)


@kernel
def sum_of_squares(places: Any, counts: Any) -> float:
    """Return the sum of squares of all numbers; not finite if one of them is not."""
    total = 0.0
    for k in range(len(places)):
        numbers = floats_at(places[k], counts[k])
        part: Any = 0.0
        for i in range(len(numbers)):
            part += np.float64(numbers[i]) * np.float64(numbers[i])
        total += part
    return total


@kernel
def multiply(places: Any, counts: Any, factor: float) -> None:
    """Multiply all numbers by `factor`, in place."""
    for k in range(len(places)):
        numbers = floats_at(places[k], counts[k])
        for i in range(len(numbers)):
            numbers[i] *= np.float32(factor)


@kernel
def adamw(
    weights: Any, gradients: Any, means: Any, squares: Any, steps: Any, counts: Any,
    rate: float, beta1: float, beta2: float, eps: float, decay: float,
) -> None:  # fmt: skip
    """One step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101) for each of K tensors.

        w ← (1 − rate decay) w;   m ← β₁ m + (1 − β₁) g;   v ← β₂ v + (1 − β₂) g²
        w ← w − rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)

    `steps` are the addresses of t, one float32 each, which is raised first.
    """
    keep, blend1, blend2 = np.float32(1 - rate * decay), np.float32(1 - beta1), np.float32(1 - beta2)
    for k in range(len(weights)):
        step = floats_at(steps[k], 1)
        step[0] += np.float32(1)
        size = np.float32(rate / (1 - beta1 ** np.float64(step[0])))
        root = np.float32(1 / math.sqrt(1 - beta2 ** np.float64(step[0])))
        w, g = floats_at(weights[k], counts[k]), floats_at(gradients[k], counts[k])
        m, v = floats_at(means[k], counts[k]), floats_at(squares[k], counts[k])
        for i in range(counts[k]):
            m[i] += blend1 * (g[i] - m[i])
            v[i] = np.float32(beta2) * v[i] + blend2 * g[i] * g[i]
            w[i] = keep * w[i] - size * m[i] / (np.float32(math.sqrt(v[i])) * root + np.float32(eps))


def find_device(name: str) -> torch.device:
    """Return the device that torch calls `name`.

    Raises:
        ValueError: torch sees no such GPU.
    """
    device = torch.device(name)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device={name!r}: torch sees {count} GPUs that it can use")
    return device


def check_precision(device: torch.device, precision: str) -> None:
    """Check that `device` has `precision`.

    Raises:
        ValueError: only GPUs have it.
    """
    if device.type == "cpu" and precision != "float32":
        raise ValueError(
            f"precision={precision!r} is for GPUs, and the policy is on the CPU, which computes in float32"
        )


def place(module: nn.Module, device: str, precision: str = "float32") -> torch.device:
    """Move a policy to `device` and return it; with "auto" the policy stays where it is.

    Raises:
        ValueError: torch sees no such device, or the precision is one that only GPUs have.
    """
    if device != "auto":
        module.to(find_device(device))
    parameter = next(module.parameters(), None)
    placed = torch.device("cpu") if parameter is None else parameter.device
    check_precision(placed, precision)
    return placed


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: PPOConfig | BehaviorCloningConfig, device: torch.device
) -> torch.optim.AdamW:
    """AdamW; on a GPU one whose steps a CUDA graph can hold, with the learning rate on the device as well."""
    options: dict[str, Any] = {"eps": config.adam_eps, "weight_decay": config.weight_decay}
    if device.type != "cuda":
        return AdamW(parameters, lr=config.learning_rate, **options)
    rate = torch.tensor(config.learning_rate, device=device)
    return torch.optim.AdamW(parameters, lr=rate, fused=True, capturable=True, **options)


def is_capturable(optimizer: torch.optim.Optimizer) -> bool:
    """Return True if a CUDA graph can hold the optimizer's steps.

    In a graph a learning rate that is no tensor would never change.
    """
    return all(g.get("capturable", False) and isinstance(g["lr"], Tensor) for g in optimizer.param_groups)


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the rate of each group, times its "lr_scale"; in place where a graph may hold the number."""
    for group in optimizer.param_groups:
        set_rate(group, learning_rate * group.get("lr_scale", 1.0))


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of a group of parameters, in place where a graph may hold the number."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def own_optimizer(
    optimizer: torch.optim.Optimizer, policy: Policy, learning_rate: float
) -> torch.optim.Optimizer:
    """Return `optimizer`, whose learning rates now stay as they are where `learning_rate` is set.

    Raises:
        ValueError: it moves no parameter of `policy`, or has to compute the loss itself.
    """
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(
            f"optimizer: {type(optimizer).__name__} computes the loss several times in a step, by a closure"
            " that no trainer has. Use one that needs none, such as torch.optim.AdamW"
        )
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if moved.isdisjoint(map(id, policy.parameters())):
        raise ValueError("optimizer: expected one of the policy's parameters, got one of other parameters")
    for group in optimizer.param_groups:
        group["lr_scale"] = float(group["lr"]) / learning_rate
    return optimizer


def clip_gradients(parameters: Sequence[Tensor], max_norm: float | None) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`; return the norm before.

    Same contract as `nn.utils.clip_grad_norm_`; None: leave them as they are.
    """
    max_norm = math.inf if max_norm is None else max_norm
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not are_plain(gradients):
        return float(nn.utils.clip_grad_norm_(parameters, max_norm))
    places, counts = addresses(gradients), sizes(gradients)
    norm = math.sqrt(sum_of_squares(places, counts))
    if max_norm < norm + 1e-6 and norm < math.inf:
        multiply(places, counts, max_norm / (norm + 1e-6))
    return norm


def forget_gradients(parameters: Sequence[Tensor]) -> None:
    """Remove all gradients, ten times as fast as `zero_grad` of an optimizer, which records a profile."""
    for parameter in parameters:
        parameter.grad = None


class AdamW(torch.optim.AdamW):
    """torch's AdamW, whose step is one kernel call where all parameters are float32 on the CPU.

    State, state dict and hyper-parameters are torch's, so checkpoints of either load into the other.
    """

    # torch excludes these methods from torch.compile: their first call imports `torch._dynamo`, which takes
    # longer than the import of torch. Nothing compiles an optimizer here.
    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    state_dict = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.AdamW.load_state_dict)

    def __init__(self, parameters: Iterable[Tensor], **options: Any) -> None:
        """`options`: of torch's AdamW."""
        super().__init__(parameters, fused=True, **options)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move the parameters that have gradients."""
        groups = [(group, [p for p in group["params"] if p.grad is not None]) for group in self.param_groups]
        if not all(_is_plain(group, parameters) for group, parameters in groups):
            super().step()
            return
        for group, parameters in groups:
            states = [self._state(parameter) for parameter in parameters]
            adamw(
                addresses(parameters),
                addresses([p.grad for p in parameters]),
                addresses([state["exp_avg"] for state in states]),
                addresses([state["exp_avg_sq"] for state in states]),
                addresses([state["step"] for state in states]),
                sizes(parameters),
                float(group["lr"]),
                *map(float, group["betas"]),
                float(group["eps"]),
                float(group["weight_decay"]),
            )

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state


def _is_plain(group: dict[str, Any], parameters: list[Tensor]) -> bool:
    """Return True if the kernel computes what torch would."""
    if group["amsgrad"] or group["maximize"]:
        return False
    return are_plain(parameters) and are_plain(p.grad for p in parameters if p.grad is not None)
