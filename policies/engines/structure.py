"""Whether a network's modules are still those that it was built of."""

from __future__ import annotations

from typing import Any

from torch import nn


class Structure:
    """The modules inside a module, as they are when this is made.

    The fused engine reads parameters where they lie and calls no module. So what a user puts in a module's
    place (another head, a low-rank adapter), and what is hung on it (hooks, parametrizations, pruning), only
    torch's engine can run.
    """

    def __init__(self, module: nn.Module) -> None:
        inside = [child for child in module.modules() if child is not module]
        self._links = [
            (parent._modules, name, child, type(child))
            for parent in module.modules()
            for name, child in parent._modules.items()
        ]
        self._hooks: list[Any] = [
            hooks
            for child in inside
            for hooks in (
                *(child._forward_hooks, child._forward_pre_hooks),
                *(child._backward_hooks, child._backward_pre_hooks),
            )
        ]

    def change(self) -> str | None:
        """What has changed since, in words; None where nothing has."""
        for modules, name, child, kind in self._links:
            found = modules.get(name)
            if found is not child or type(found) is not kind:  # parametrizations change the type
                return f"the module {name!r} was replaced"
        return "a module inside has hooks" if any(self._hooks) else None
