"""`RogueNet`: the network of `policies.rogue_net.network` with the engines that compute it faster."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...envs import EntityActionSpace, EntityBatch, EntitySpace
from ...ragged import RaggedArray
from ..compilation import not_compiled
from ..policy import ActResult, Evaluation, source_of_draws
from ..rogue_net.network import RogueNetwork
from ..rogue_net.summary import Summary, summarize
from .engine_choice import EngineChoice, EngineChooser
from .fingerprint import Fingerprint
from .fused_engine import FusedEngine
from .graphs.static_network import Precision, StaticForm
from .proof import difference, static_difference


class RogueNet(RogueNetwork):
    """Maps entity batches to actions and values; a `Policy`.

        net = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=2)
        result = net.act(batch, rng)

    Options are the fields of `RogueNetConfig`. The value function sees hidden entities
    (`EntityBatch.visible`), the policy does not. A hidden entity can be neither actor nor actee, not even an
    actee that is masked.

    Continuous actions are drawn from normal distributions, see `GaussianHead`; multi-discrete actions
    component by component, see `ConditionalChoices`.

    Dropout acts in `evaluate` in training mode, where gradients are computed; never in `act` and `value`.

    `engine` names what computes: torch, as `policies.rogue_net.network` defines it, or an engine that gives
    the same numbers. That engine is compared with torch before it first acts and before it first learns, and
    again when a module, its class, an attribute, a buffer or its source has changed. If they differ, torch
    computes, and a warning in the log names what differs.

    Raises:
        TypeError: other spaces than these, or an unknown option.
        ValueError: an option that does not fit the spaces.
    """

    def __init__(
        self, observation_space: EntitySpace, action_space: EntityActionSpace, **options: Any
    ) -> None:
        super().__init__(observation_space, action_space, **options)
        self._chooser = EngineChooser(self.settings, observation_space, self)
        self._fused: FusedEngine | None = None  # made when it is first compared with torch
        self._static: StaticForm | None = None  # made when it is needed
        self._precision: Precision = "float32"

    def __getstate__(self) -> dict[str, Any]:
        """Copies make engines of their own: engines hold on to modules, and graphs cannot be copied."""
        return {**vars(self), "_fused": None, "_static": None}

    @property
    def engine(self) -> EngineChoice:
        """The engine that computes in the module's present mode, and the reason for it."""
        return self._choose(self.training, learns=False)

    # -- the policy's interface -----------------------------------------------------------------------------

    @not_compiled
    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor; see `Policy.act`.

        Raises:
            TypeError: `rng` is no generator.
            ValueError: the batch does not fit the space, or the mask of an actor allows nothing.
        """
        source = source_of_draws(rng, deterministic)
        engine = self._acting_engine()
        if isinstance(engine, StaticForm):
            return engine.act(batch, rng, deterministic)
        if engine is None:
            return super().act(batch, rng, deterministic)
        prepared = self.inputs.prepare(batch)
        return engine.network.act(prepared, batch.actions, engine.weights(), source)

    @not_compiled
    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the predicted return of each step (B,), without gradients."""
        engine = self._acting_engine()
        if isinstance(engine, StaticForm):
            return engine.value(batch)
        if engine is None:
            return super().value(batch)
        return engine.network.values(self.inputs.prepare(batch), engine.weights())

    @not_compiled
    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        `actions` are as in `ActResult.raw`; `as_raw` makes them of others.

        Raises:
            TypeError: the actions are no dict of ragged arrays.
            ValueError: an action is missing, has the wrong number of items, or is masked.
        """
        engine = self.fused_engine()
        if engine is None:
            return super().evaluate(batch, actions)
        prepared = self.inputs.prepare(batch)
        self.check_actions(batch, actions)
        return Evaluation(*engine.evaluate(prepared, batch.actions, actions))

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`; see `RogueNetwork.adapt_to`."""
        super().adapt_to(space)
        self._chooser = EngineChooser(self.settings, space, self)  # it may hide entities

    @not_compiled
    def update_normalization(self, batch: EntityBatch) -> None:
        """Update the statistics of the inputs by `batch`: once per collected batch, by the trainer.

        Raises:
            ValueError: a feature is NaN or infinite; no statistic has changed.
        """
        super().update_normalization(batch)
        if self._fused is not None:
            self._fused.read_again()

    def frozen_weights(self) -> AbstractContextManager[None]:
        """Return a context in which only `update_normalization` changes parameters.

            with net.frozen_weights():
                ...  # a rollout

        `act`, `value` and an `evaluate` without gradients need not read the parameters at each call there. An
        `evaluate` with gradients always does.
        """
        engine = self._acting_engine()
        return engine.hold() if isinstance(engine, FusedEngine) else nullcontext()

    def constant(self) -> AbstractContextManager[None]:
        """Deprecated name of `frozen_weights`."""
        warnings.warn("RogueNet.constant: use frozen_weights", DeprecationWarning, stacklevel=2)
        return self.frozen_weights()

    def summary(
        self, entity_counts: Mapping[str, float] | None = None, actors: Mapping[str, float] | None = None
    ) -> Summary:
        """Return the parameters, itemised, and the multiply-adds of one step; see `summarize`."""
        return summarize(self, entity_counts, actors)

    # -- engines --------------------------------------------------------------------------------------------

    def fused_engine(self) -> FusedEngine | None:
        """Return the engine that evaluates by kernels in the present mode; None if another one evaluates."""
        choice = self._choose(self.training, learns=True)
        self._chooser.log(choice)
        return self._fused if choice.name == "fused" else None

    def static_form(self, precision: Precision | None = None) -> StaticForm:
        """Return the network on arrays of fixed shapes, as engine "graphs" computes it, in this `precision`.

        From now on it acts in this precision; None: as before.

        Raises:
            ValueError: the network has options that have no fixed shapes.
        """
        wanted = self._precision if precision is None else precision
        form = self._static
        if form is None or form.precision != wanted or form.device != self.like.device:
            form = self._static = StaticForm(self, wanted)
            self._precision = wanted
        return form

    def acts_otherwise(self) -> str | None:
        """Return what differs from how a plain RogueNet of these options and parameters acts; None: nothing.

        An overridden method, a replaced module or a hook can change what the network computes. An agent
        without torch knows options and parameters alone, so it would choose other actions.
        """
        if Fingerprint(self).has_hooks():
            return "a module inside has hooks"
        return difference(self, learns=False)

    def _acting_engine(self) -> FusedEngine | StaticForm | None:
        """Return what acts; None: torch."""
        if self._fused is not None and self._fused.holds_weights:
            return self._fused
        choice = self._choose(training=False, learns=False)
        self._chooser.log(choice)
        if choice.name == "graphs":
            return self.static_form()
        return self._fused if choice.name == "fused" else None

    def _choose(self, training: bool, learns: bool) -> EngineChoice:
        return self._chooser.choose(self.like, training, learns, self._compare)

    def _compare(self, engine: str, learns: bool) -> str | None:
        """Make the engine anew; return where it differs from torch."""
        if engine == "graphs":
            return self._compare_static()
        try:
            self._fused = FusedEngine(self)
        except Exception as error:  # a module of the user's may have other parts
            return f"{type(error).__name__} in making kernels: {error}"
        return difference(self, learns)

    def _compare_static(self) -> str | None:
        self._static = None
        for name in ("evaluate", "assess"):
            if getattr(type(self), name) is not getattr(RogueNet, name) or name in vars(self):
                return f"{name} is overridden"
        return static_difference(self)
