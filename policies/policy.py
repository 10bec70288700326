"""`Policy`: the interface of networks for trainers.

Shape alphabet: B steps, A actors of one action at all steps, K numbers of a continuous action.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..envs import ActionMask, EntityActionSpace, EntityBatch, EntitySpace
from ..envs.errors import named_kind
from ..ragged import RaggedArray

if TYPE_CHECKING:
    from torch import Tensor, nn

    from .inputs.actors import Drawn


@dataclass(frozen=True, eq=False)
class ActResult:
    """The actions chosen at B steps.

    Sequence b of every ragged array belongs to step b and has one item per actor, in the order of
    `batch.actions[name].actors`.

    `actions` are always legal: they go to the environment as they are. A continuous policy samples
    raw actions: normal numbers that are then clipped to the bounds or squashed between them. Many raw actions
    become the same action, so log-probabilities refer to raw actions: `raw` is to be kept for learning and
    given to `evaluate`. A policy passes only raw actions that differ from `actions`; the attribute has all.
    """

    #: Per action (A,) int64, the choice or the chosen actee's index; conditional multi-discrete (A, M) int64;
    #: continuous (A, K) float32.
    actions: dict[str, RaggedArray]
    #: Per action (A,) float32, the log-probability of each actor's choice; of real numbers the logarithm of
    #: the density, in the units of the action, before clipping.
    log_probs: dict[str, RaggedArray]
    values: NDArray[np.float32]  # (B,)
    #: Per action, of its dtype; of its shape, but that a policy may add columns.
    raw: dict[str, RaggedArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw", {**self.actions, **self.raw})

    @property
    def drawn(self) -> dict[str, RaggedArray]:
        """Deprecated name of `raw`."""
        warnings.warn("ActResult.drawn is deprecated: use ActResult.raw.", DeprecationWarning, stacklevel=2)
        return self.raw

    @classmethod
    def from_draws(
        cls, draws: Mapping[str, Drawn], masks: Mapping[str, ActionMask], values: NDArray[np.float32]
    ) -> ActResult:
        """Return the result of the actions that heads drew for the actors of `masks`."""
        actors = {name: masks[name].actors for name in draws}
        return cls(
            {name: actors[name].with_values(draw.actions) for name, draw in draws.items()},
            {name: actors[name].with_values(draw.log_probs) for name, draw in draws.items()},
            values,
            {n: actors[n].with_values(draw.raw) for n, draw in draws.items() if draw.raw is not None},
        )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Given actions under the current parameters, with gradients."""

    log_probs: dict[str, Tensor]  # per action (A,), flat in the order of the actors
    entropies: dict[str, Tensor]  # per action (A,), in nats, over the allowed choices; or differential
    values: Tensor  # (B,)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Distributions and attention of a policy at a single step, for people to look at; n rows, A actors."""

    #: Per action: the probability of each choice (A, C), in the columns of the mask; of each actee (A, E); or
    #: of continuous actions the action one standard deviation below the mean, at the mean, and one above it
    #: (A, 3, K). Masked choices have probability 0.
    distributions: dict[str, NDArray[np.float32]]
    #: Per block the weights (heads, n, n) with which each row reads the others: each row of weights sums to
    #: 1. Empty: the policy has no attention.
    attention: tuple[NDArray[np.float32], ...] = ()
    #: The entity index of each of the rows (n,); -1 is the step as a whole.
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


def source_of_draws(rng: np.random.Generator, deterministic: bool) -> np.random.Generator | None:
    """Return the generator that draws actions, `rng`; None if the most probable ones are taken.

    Raises:
        TypeError: actions are to be drawn, and `rng` is no generator.
    """
    if deterministic:
        return None
    if isinstance(rng, np.random.Generator | np.random.RandomState):
        return rng  # the older class has the methods that are needed
    raise TypeError(
        f"act: rng: expected a numpy.random.Generator, got {rng!r}. Make one with numpy.random.default_rng"
        " (the most probable actions: deterministic=True)"
    )


@runtime_checkable
class ActingPolicy(Protocol):
    """A policy that acts, and need not be trainable."""

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor, without gradients.

        All randomness comes from `rng`, so equal generators give equal actions; `deterministic` takes the
        most probable choice (the first of equals; of real numbers the mean) and draws nothing.
        """
        ...


@runtime_checkable
class Policy(ActingPolicy, Protocol):
    """An `nn.Module` that acts on entity batches; any object with these members can be trained."""

    observation_space: EntitySpace
    action_space: EntityActionSpace
    config: dict[str, Any]  # constructor options, JSON-able, for checkpoints

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,), without gradients."""
        ...

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        `actions` are as in `ActResult.raw`.
        """
        ...

    def update_normalization(self, batch: EntityBatch) -> None:
        """Update the input statistics by `batch`; called once per collected batch, by the trainer alone."""
        ...

    # Members of `nn.Module` that trainers use.
    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Return the parameters that the optimizer updates, as `nn.Module.parameters` does."""
        ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the same with their names, as `nn.Module.named_parameters` does."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and input statistics by name, for checkpoints, as `nn.Module.state_dict` does."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Load what `state_dict` returned, as `nn.Module.load_state_dict` does.

        Raises:
            RuntimeError: the names differ and `strict` is true, or a shape differs.
        """
        ...

    def train(self, mode: bool = True) -> Any:
        """Switch between training and evaluation mode (dropout), as `nn.Module.train` does."""
        ...


def check_members(name: str, policy: object) -> None:
    """Check that an object has the members of `Policy`.

    Raises:
        TypeError: it lacks some; they follow `name`.
    """
    members = [member for kind in (ActingPolicy, Policy) for member in (*kind.__annotations__, *vars(kind))]
    if missing := [member for member in members if member[0] != "_" and not hasattr(policy, member)]:
        got = f"{named_kind(policy)} without {', '.join(missing)}"
        raise TypeError(f"{name}: expected the members of entitize.Policy, got {got}")


def space_read_by(policy: Policy) -> EntitySpace:
    """Return the space whose batches a policy takes: another one than its own after `RogueNet.adapt_to`."""
    reads = getattr(policy, "reads", None)
    return reads if isinstance(reads, EntitySpace) else policy.observation_space


def fit_to(policy: Policy, space: EntitySpace) -> None:
    """Let a policy read batches of `space`, as far as it can adapt.

    Raises:
        ValueError: it reads batches of another space.
    """
    if hasattr(policy, "adapt_to"):
        policy.adapt_to(space)
    elif policy.observation_space != space:
        raise ValueError(f"expected observations of {policy.observation_space}, got {space}")


@runtime_checkable
class ExplainablePolicy(Protocol):
    """A policy that shows its distributions, and what it attends to."""

    def explain(self, batch: EntityBatch) -> Explanation:
        """Return what the policy computes at a batch of one step, without gradients.

        Raises:
            ValueError: the batch does not fit the space, or has another number of steps.
        """
        ...


@runtime_checkable
class FreezablePolicy(Protocol):
    """A policy that acts faster while its parameters stay as they are."""

    def frozen_weights(self) -> AbstractContextManager[None]:
        """Return a context in which only `update_normalization` changes the parameters."""
        ...


def frozen_weights(policy: object) -> AbstractContextManager[None]:
    """Return that context of a policy that has one; of others a context that does nothing."""
    return policy.frozen_weights() if isinstance(policy, FreezablePolicy) else nullcontext()
