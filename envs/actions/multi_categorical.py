"""Composite orders: `MultiCategorical`, several choices per actor; the first says which others count.

Shape alphabet: A actors, M components of an order, C choices of all components together, K kinds (the choices
of the first component).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .action_spaces import (
    ActionSpace,
    binary_problem,
    flag_space,
    index_space,
    indices_problem,
    keys_problem,
    subset,
    unique_names,
)


class MultiCategorical(ActionSpace):
    """Each actor gives a composite order: one choice for each of M named components.

        MultiCategorical(
            {"kind": ["none", "move", "attack"], "move": ["north", "east", "south", "west"], "attack": 49},
            uses={"move": ["move"], "attack": ["attack"]},
        )

    The first component is the *kind*; `uses` says which of the others it needs, and a kind that `uses` leaves
    out needs none. Without `uses` all components count always.

    Action: int64 (A, M), one row per actor in the order of the observation's `actors`; (0, M) orders nothing.
    A component that the kind does not use may hold any of its choices; 0 is what sampling and policies write.
    Observation part: `actors` int64 (A,) entity indices, `mask` int8 (A, C), 1 = allowed: the components'
    masks side by side, component m in the columns `offsets[m]` to `offsets[m + 1]`. Each actor must be
    allowed a kind, and for each allowed kind something of every component that it uses; of a component that
    no allowed kind uses nothing needs to be allowed.

    Attributes:
        components: per component the names of its choices, in order; a number n stands for "0" to "n - 1".
        uses: per kind the further components that it uses, in the components' order.
        sizes: int64 (M,), the choices of each component.
        offsets: int64 (M + 1,), where each component's columns of the mask start.
        used: bool (K, M), which components count for a kind; the kind itself always does.

    Raises:
        TypeError, ValueError: no component, one without choices, names that repeat or are no strings, or
            `uses` with a kind or component that there is not.
    """

    def __init__(
        self,
        components: Mapping[str, Sequence[str] | int],
        uses: Mapping[str, Sequence[str]] | None = None,
        seed: int | None = None,
    ) -> None:
        if not isinstance(components, Mapping) or not components:
            raise TypeError(f"components must be a dict from name to choices, not empty, got {components!r}")
        unique_names(list(components), "components")
        self.components: dict[str, tuple[str, ...]] = {
            name: _choice_names(name, choices) for name, choices in components.items()
        }
        self.names: tuple[str, ...] = tuple(self.components)
        self.sizes: NDArray[np.int64] = np.array([len(c) for c in self.components.values()], np.int64)
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.sizes)])
        kinds, others = self.components[self.names[0]], self.names[1:]
        if uses is None:
            uses = dict.fromkeys(kinds, others)
        self.used: NDArray[np.bool_] = np.zeros((len(kinds), len(self.names)), bool)
        self.used[:, 0] = True
        for kind, needed in uses.items():
            _check_use(kind, needed, kinds, others)
            self.used[kinds.index(kind)] |= np.isin(self.names, needed)
        self.uses: dict[str, tuple[str, ...]] = {
            kind: tuple(name for name, use in zip(others, row[1:], strict=True) if use)
            for kind, row in zip(kinds, self.used.tolist(), strict=True)
        }
        self.item_shape = (len(self.names),)
        super().__init__(None, np.int64, seed)

    @property
    def num_choices(self) -> int:
        """C, the choices of all components together."""
        return int(self.offsets[-1])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The choices of the first component (K,)."""
        return self.components[self.names[0]]

    def labels(self, order: NDArray[np.int64]) -> dict[str, str]:
        """The names of one actor's choices (M,), of the components that its kind uses alone."""
        used = self.used[order[0]].tolist()
        choices = zip(self.components.items(), order.tolist(), used, strict=True)
        return {name: names[choice] for (name, names), choice, use in choices if use}

    # -- masks ----------------------------------------------------------------------------------------------

    def mask_space(self) -> spaces.Dict:
        return spaces.Dict({"actors": index_space(), "mask": flag_space((self.num_choices,))})

    def mask_problem(self, part: Any, num_entities: int) -> str | None:
        problem = keys_problem(part, ("actors", "mask"))
        if problem:
            return problem
        problem = indices_problem(part["actors"], num_entities)
        if problem:
            return f"'actors' {problem}"
        problem = binary_problem(part["mask"], (len(part["actors"]), self.num_choices))
        if problem:
            return f"'mask' {problem}"
        stuck = self.stuck_actor(part["mask"].astype(bool))
        return f"row {stuck[0]} of 'mask' {stuck[1]}" if stuck else None

    def allows_something(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of which components `mask` (A, C) allows something: (A, M)."""
        return np.logical_or.reduceat(mask, self.offsets[:-1], axis=1)

    def stuck_actor(self, mask: NDArray[np.bool_]) -> tuple[int, str] | None:
        """The first row of `mask` (A, C) without a legal order for each allowed kind, and why, in words."""
        something = self.allows_something(mask)
        needed = mask[:, : self.sizes[0]] @ self.used  # (A, M): by a kind that is allowed
        stuck = (needed & ~something) | ~something[:, :1]
        if not stuck.any():
            return None
        row, component = (int(place) for place in np.argwhere(stuck)[0])
        if not something[row, 0]:
            return row, f"allows no {self.names[0]!r}"
        kind = self.kinds[int((mask[row, : self.sizes[0]] & self.used[:, component]).argmax())]
        return row, f"allows {kind!r}, but none of the {self.names[component]!r} that it uses"

    def sample_mask(self, num_entities: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """Components that no allowed kind uses allow nothing about half of the time."""
        actors = subset(num_entities, rng)
        mask = rng.random((len(actors), self.num_choices)) < 0.7
        columns = self.offsets[:-1] + rng.integers(self.sizes, size=(len(actors), len(self.sizes)))
        np.put_along_axis(mask, columns, True, 1)
        needed = mask[:, : self.sizes[0]] @ self.used
        keep = needed | (rng.random(needed.shape) < 0.5)
        mask &= np.repeat(keep, self.sizes, axis=1)
        return {"actors": actors, "mask": mask.astype(np.int8)}

    # -- orders ---------------------------------------------------------------------------------------------

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> NDArray[np.int64]:
        """A kind, uniform over the allowed ones, and of each component that it uses an allowed choice."""
        if mask is None:
            return np.zeros((0, *self.item_shape), np.int64)
        return self.draw(np.asarray(mask["mask"], bool), self.np_random)

    def draw(self, mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        """Random orders (A, M) for `mask` (A, C), as `sample` draws them."""
        flags = mask.reshape(-1)
        starts = np.arange(len(mask))[:, None] * self.num_choices + self.offsets[:-1]  # (A, M)
        allowed = np.flatnonzero(flags)
        before = np.zeros(len(flags) + 1, np.int64)  # how many are allowed before each place
        np.cumsum(flags, out=before[1:])
        counts = before[starts + self.sizes] - before[starts]
        picks = before[starts] + (rng.random(counts.shape) * counts).astype(np.int64)
        orders = np.zeros(counts.shape, np.int64)
        some = counts > 0  # nothing may be allowed of what no kind uses
        orders[some] = allowed[picks[some]] - starts[some]
        return np.where(self.used[orders[:, 0]], orders, 0)

    def legal(self, orders: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which components of `orders` (A, M) `mask` (A, C) permits: (A, M).

        A component that the kind does not use needs only to be in range.
        """
        inside = (orders >= 0) & (orders < self.sizes)
        columns = self.offsets[:-1] + np.where(inside, orders, 0)
        unused = ~self.used[np.where(inside[:, 0], orders[:, 0], 0)]
        return inside & (unused | np.take_along_axis(mask, columns, 1))

    def mended(self, orders: NDArray[np.int64], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """`orders` (A, M) with the first choice that `mask` (A, C) allows wherever one is not legal."""
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        first = np.stack([mask[:, start:stop].argmax(1) for start, stop in bounds], 1)
        mended = orders.copy()
        mended[:, 0] = np.where(self.legal(orders, mask)[:, 0], orders[:, 0], first[:, 0])
        return np.where(self.legal(mended, mask), mended, first)

    def allowed_in_words(self, row: NDArray[np.bool_], component: int) -> str:
        """What a row (C,) of the mask allows of a component: "0 ('north'), 2 ('south')"."""
        names = self.components[self.names[component]]
        allowed = np.flatnonzero(row[self.offsets[component] : self.offsets[component + 1]])
        return ", ".join(f"{choice} ({names[choice]!r})" for choice in allowed) or "nothing"

    def illegal_in_words(self, order: NDArray[np.int64], row: NDArray[np.bool_]) -> str:
        """Why an order (M,) is not legal for a row (C,) of the mask, naming component and choice."""
        component = int(self.legal(order[None], row[None])[0].argmin())
        name, choice = self.names[component], int(order[component])
        names = self.components[name]
        if not 0 <= choice < len(names):
            return f"component {name!r}: there is no choice {choice}, expected 0 to {len(names) - 1}"
        kind = f" of kind {self.kinds[order[0]]!r}" if component else ""
        allowed = self.allowed_in_words(row, component)
        return f"component {name!r}{kind}: {choice} ({names[choice]!r}) is not allowed; allowed: {allowed}"

    def contains_choices(self, choices: Any) -> bool:
        """Whether `choices` (n, M) are choices that there are, for any number of actors."""
        return (
            isinstance(choices, np.ndarray)
            and choices.ndim == 2
            and choices.shape[1] == len(self.sizes)
            and np.issubdtype(choices.dtype, np.integer)
            and bool(np.all((choices >= 0) & (choices < self.sizes)))
        )

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and list(self.components.items()) == list(other.components.items())
            and self.uses == other.uses
        )

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.components.items()), tuple(self.uses.items())))

    def __repr__(self) -> str:
        components = {name: list(choices) for name, choices in self.components.items()}
        return f"{type(self).__name__}({components}, { ({k: list(u) for k, u in self.uses.items()}) })"


def _choice_names(component: str, choices: Sequence[str] | int) -> tuple[str, ...]:
    names = [str(i) for i in range(choices)] if isinstance(choices, int) else choices
    if not names:
        raise ValueError(f"component {component!r} needs at least one choice")
    return unique_names(names, f"component {component!r}: choices")


def _check_use(kind: str, needed: Sequence[str], kinds: tuple[str, ...], others: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise ValueError(f"uses: unknown kind {kind!r}; known: {', '.join(map(repr, kinds))}")
    for name in unique_names(needed, f"uses of {kind!r}"):
        if name not in others:
            known = ", ".join(map(repr, others)) or "none"
            raise ValueError(f"uses of {kind!r}: unknown component {name!r}; further components: {known}")
