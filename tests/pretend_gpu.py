"""A GPU that is none: tensors that say that they lie on "cuda:0", with their numbers in the host's memory.

    with pretend_gpu(monkeypatch):
        net.to("cuda")

As on a GPU, an operation on tensors of both places is an error, and only a copy becomes a NumPy array. Code
that mixes places fails here too. Streams and graphs are left out: functions run at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import safetensors.torch
import torch
from entitize.policies.engines.graphs import captured_graphs, cuda
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda", 0)
_aten = torch.ops.aten
#: Operations that may read the host's memory on a GPU too.
_MIXING = (_aten.copy_.default, _aten._to_copy.default, _aten.index.Tensor, _aten.index_put_.default)
_REFUSAL = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()"


class OnGPU(Tensor):
    """A tensor that says that it lies on the GPU; its numbers are in `there`."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: GPU)  # type: ignore[assignment]
    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]
    there: Tensor

    @staticmethod
    def __new__(cls, there: Tensor, requires_grad: bool = False) -> OnGPU:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, there.size(), strides=there.stride(), storage_offset=there.storage_offset(),
            dtype=there.dtype, layout=there.layout, device="cpu", requires_grad=requires_grad,
        )  # fmt: skip
        made.there = there
        return made  # type: ignore[no-any-return]

    def __init__(self, *_: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError(_REFUSAL)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(_REFUSAL)

    def tolist(self) -> Any:
        return self.there.tolist()

    def cpu(self) -> Tensor:  # type: ignore[override]
        return _Back.apply(self)  # type: ignore[no-any-return, no-untyped-call]

    def data_ptr(self) -> int:
        return self.there.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied: Tensor = OnGPU(self.there.detach().clone(), self.requires_grad)
        if getattr(self, "_is_param", False):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied


class _Back(torch.autograd.Function):
    """A copy on the host, with gradients."""

    @staticmethod
    def forward(_: Any, x: Any) -> Tensor:
        return x.there.clone()  # type: ignore[no-any-return]

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return OnGPU(gradient)


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the numbers; its result lies where its operands do."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    on_gpu = any(isinstance(tensor, OnGPU) for tensor in tensors)
    if func is _aten.index_add.default and on_gpu and not isinstance(args[0], OnGPU):
        args = (OnGPU(args[0]), *args[1:])  # zeros that torch makes in the backward pass of index_select
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    on_host = [tensor for tensor in tensors if not isinstance(tensor, OnGPU) and tensor.dim()]
    if on_gpu and on_host and func not in _MIXING:
        raise RuntimeError(
            f"{func}: Expected all tensors to be on the same device, but found cuda:0 and cpu!"
        )
    if func is _aten.copy_.default:
        on_gpu = isinstance(args[0], OnGPU)
    own, options = tree_map(lambda x: x.there if isinstance(x, OnGPU) else x, (args, kwargs))
    out = func(*own, **options)
    written = [
        given
        for given, argument in zip(args, func._schema.arguments, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if written and isinstance(out, Tensor) and isinstance(written[0], Tensor):
        return written[0]
    return tree_map(lambda x: OnGPU(x) if on_gpu and isinstance(x, Tensor) else x, out)


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Calls(TorchFunctionMode):
    """Calls that name the GPU, which torch's C++ would look for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device or getattr(func, "__name__", "") in ("_parse_to", "__get__"):
            return func(*args, **kwargs)
        given = [*args, *kwargs.values()]
        if func is Tensor.to:
            return _moved(args[0], given[1:], kwargs)
        if not any(map(_is_gpu, given)):
            return func(*args, **kwargs)
        out = func(*map(_instead, args), **{name: _instead(value) for name, value in kwargs.items()})
        if isinstance(out, Tensor) and not isinstance(out, OnGPU):
            return OnGPU(out.detach().clone(), out.requires_grad)
        return out


def _is_gpu(value: Any) -> bool:
    return isinstance(value, torch.device | str) and str(value).split(":")[0] == "cuda"


def _instead(value: Any) -> Any:
    return torch.device("cpu") if _is_gpu(value) else value


def _moved(x: Tensor, given: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """`Tensor.to`, of a device, a dtype or another tensor."""
    like = next((value for value in given if isinstance(value, Tensor)), None)
    dtype = next((value for value in given if isinstance(value, torch.dtype)), None)
    dtype = dtype or (x.dtype if like is None else like.dtype)
    place = next(
        (v for v in given if isinstance(v, torch.device | str)), None if like is None else like.device
    )
    if isinstance(x, OnGPU):
        if place is not None and not _is_gpu(place):
            x = x.cpu()
        return x if x.dtype == dtype else Tensor.to(x, dtype)
    if _is_gpu(place):
        return OnGPU(x.detach().to(dtype).clone(), x.requires_grad)
    return Tensor.to(x, *given, **{n: v for n, v in kwargs.items() if n == "memory_format"})


class _Courier:
    """Copies at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wait(self) -> None:
        pass

    @contextmanager
    def copied(self, source: Tensor, target: Tensor) -> Iterator[None]:
        target.copy_(source)
        yield

    def reserve(self, num_bytes: int) -> Tensor:
        return torch.empty(num_bytes, dtype=torch.uint8, device=self.device)


@contextmanager
def pretend_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Context in which torch has one such GPU."""
    if torch.backends.cuda.is_built() and not torch.cuda.is_available():
        pytest.skip("a torch for CUDA asks its driver, which is not there")
    save = safetensors.torch.save

    def saved(tensors: dict[str, Tensor], *args: Any, **kwargs: Any) -> bytes:
        return save({n: t.there if isinstance(t, OnGPU) else t for n, t in tensors.items()}, *args, **kwargs)

    with monkeypatch.context() as patch:
        answers = {
            "is_available": True,
            "device_count": 1,
            "synchronize": None,
            "get_device_name": "pretended",
        }
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)
        # No inference mode, which wrapped tensors lack.
        patch.setattr(torch, "inference_mode", lambda on=True: torch.no_grad() if on else nullcontext())
        patch.setattr(safetensors.torch, "save", saved)
        patch.setattr(cuda, "pinned", lambda num_bytes: torch.empty(num_bytes, dtype=torch.uint8))
        patch.setattr(cuda, "aside", lambda function, device: function())
        patch.setattr(cuda, "Courier", _Courier)
        patch.setattr(captured_graphs, "WARM_UP", 10**9)
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            with _Operations(), _Calls():
                yield
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(overwrites)
