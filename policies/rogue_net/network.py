"""`RogueNet`: a transformer over the entities of a step."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    MultiCategorical,
    SelectEntity,
)
from ...ragged import RaggedArray
from ..engines.engine_choice import EngineChoice, EngineChooser
from ..engines.fused_engine import FusedEngine
from ..engines.graphs.static_network import Precision, StaticForm
from ..inputs.actors import Drawn
from ..inputs.prepare import Inputs, Prepared
from ..inputs.rows import Rows
from ..policy import ActResult, Evaluation
from .attention.groups import length_groups
from .blocks import Backbone
from .composite import CompositeHead
from .config import RogueNetConfig, from_options
from .embedding import Embedding
from .gaussian import GaussianHead
from .heads import CategoricalHead, SelectEntityHead, ValueHead
from .names import NamedModules
from .normalization import InputNorm, take_in
from .summary import Summary, summarize
from .tensors import as_tensor


class Encoder(nn.Module):
    """Embedding and blocks: normalised features to rows (N, D)."""

    def __init__(self, config: RogueNetConfig, features: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.embedding = Embedding(features, config.d_model)
        self.backbone = Backbone(config, features)

    def encode(self, x: Tensor, prepared: Prepared, kept: NDArray[np.int64] | None, rows: Rows) -> Tensor:
        """Run the blocks over embedded rows (N, D), of which `kept` stay (None: all), laid out as `rows`."""
        encoding = self.backbone.relpos_encoding
        places = None if encoding is None else encoding.places(prepared, x)
        if kept is not None:
            index = as_tensor(kept, x)
            x = x.index_select(0, index)
            places = None if places is None else places.select(index)
        return self.backbone(x, rows, places)


class RogueNet(nn.Module):
    """Maps entity batches to actions and values; a `Policy`.

        net = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=2)
        result = net.act(batch, rng)

    Options are the fields of `RogueNetConfig`. Entities that are hidden (`EntityBatch.visible`) are seen by
    the value function and not by the policy: when a batch has any, the blocks run once over the visible rows
    for the actions and once over all rows for the values. A hidden entity can be neither actor nor actee, not
    even an actee that the mask forbids.

    Continuous actions are drawn from normal distributions, see `GaussianHead`; composite orders component by
    component, see `CompositeHead`.

    Dropout acts in `evaluate` in training mode, where gradients are computed; never in `act` and `value`.
    """

    def __init__(
        self, observation_space: EntitySpace, action_space: EntityActionSpace, **options: Any
    ) -> None:
        """
        Raises:
            TypeError: other spaces than these, or an unknown option.
            ValueError: an option that does not fit the spaces.
        """
        super().__init__()
        if not isinstance(observation_space, EntitySpace) or not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                "RogueNet takes an EntitySpace and an EntityActionSpace (of a vector environment"
                f" its single_observation_space and single_action_space), got"
                f" {type(observation_space).__name__} and {type(action_space).__name__}"
            )
        settings = from_options(RogueNetConfig, options)
        self.observation_space = observation_space
        self.action_space = action_space
        self.settings = settings
        #: The options as plain JSON-able values: `RogueNet(spaces..., **config)` builds the same network.
        self.config: dict[str, Any] = settings.to_dict()
        self.inputs = Inputs(observation_space, settings)
        features = self.inputs.features
        self.normalization = NamedModules(
            {name: InputNorm(len(names)) for name, names in features.items() if names}
        )
        self.policy_net = Encoder(settings, features)
        self.value_net = Encoder(settings.for_value(), features) if settings.separate_value_net else None
        self.action_heads = NamedModules(
            {name: self._head(name, action) for name, action in action_space.spaces.items()}
        )
        self.value_head = ValueHead(settings.for_value().d_model)
        self._chooser = EngineChooser(settings, observation_space, self)
        self._fused_engine: FusedEngine | None = None  # made when it is needed
        self._static: StaticForm | None = None  # likewise
        self._precision: Precision = "float32"

    def _head(self, name: str, action: Any) -> nn.Module:
        match action:
            case Categorical():
                return CategoricalHead(name, action.num_choices, self.settings.d_model, action.is_global)
            case Continuous():
                return GaussianHead(name, action, self.settings)
            case MultiCategorical():
                return CompositeHead(name, action, self.settings)
            case SelectEntity():
                return SelectEntityHead(name, self.settings.d_model, self.settings.d_qk)
        raise TypeError(f"action {name!r}: RogueNet has no head for {action!r}")

    # -- the policy's interface -----------------------------------------------------------------------------

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor; see `Policy.act`.

        Raises:
            ValueError: the batch does not fit the space, or an actor may do nothing.
        """
        static = self._static_for()
        if static is not None:
            return static.act(batch, rng, deterministic)
        fused = self._fused(acting=True)
        if fused is not None:
            prepared = self.inputs.prepare(batch)
            source = None if deterministic else rng
            return fused.network.act(prepared, batch.actions, fused.weights(), source)
        with torch.inference_mode():
            x, rows, values = self._encode(batch)
            actions, log_probs, drawn = {}, {}, {}
            for name in self.action_heads.names:
                mask = batch.actions[name]
                chosen: Drawn = self.action_heads[name].draw(  # type: ignore[operator]
                    x, rows, mask, None if deterministic else rng
                )
                actions[name] = mask.actors.with_values(chosen.actions)
                log_probs[name] = mask.actors.with_values(chosen.log_probs)
                if chosen.drawn is not None:
                    drawn[name] = mask.actors.with_values(chosen.drawn)
            return ActResult(actions, log_probs, values.float().cpu().numpy(), drawn)

    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Predicted return of each step (B,), without gradients."""
        static = self._static_for()
        if static is not None:
            return static.value(batch)
        fused = self._fused(acting=True)
        if fused is not None:
            return fused.network.values(self.inputs.prepare(batch), fused.weights())
        with torch.inference_mode():
            prepared = self.inputs.prepare(batch)
            return self._values(prepared).float().cpu().numpy()

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        `actions` are as in `ActResult.drawn`; `as_drawn` makes them of others.

        Raises:
            ValueError: an action is missing, has the wrong number of items, or was not allowed.
        """
        self.check_actions(batch, actions)
        fused = self._fused()
        if fused is not None:
            return Evaluation(*fused.evaluate(self.inputs.prepare(batch), batch.actions, actions))
        x, rows, values = self._encode(batch)
        log_probs, entropies = {}, {}
        for name in self.action_heads.names:
            mask = batch.actions[name]
            log_probs[name], entropies[name] = self.action_heads[name].evaluate(  # type: ignore[operator]
                x, rows, mask, actions[name]
            )
        return Evaluation(log_probs, entropies, values)

    def fused_engine(self) -> FusedEngine | None:
        """Return the engine that evaluates by kernels in the present mode; None where torch evaluates."""
        return self._fused()

    def as_drawn(self, actions: Mapping[str, RaggedArray]) -> dict[str, RaggedArray]:
        """Actions of any origin (demonstrations, say) in the form that `evaluate` takes.

        Only continuous ones change, to the numbers from which the network would have made them.

        Raises:
            ValueError: a continuous action of another shape or dtype, or one that is not finite.
        """
        return {
            name: head.numbers.drawn(chosen)
            if isinstance(head := self.action_heads[name], GaussianHead)
            else chosen
            for name, chosen in actions.items()
        }

    def forward(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """As `evaluate`."""
        return self.evaluate(batch, actions)

    def update_normalization(self, batch: EntityBatch) -> None:
        """Move the statistics of the inputs by `batch`: once per collected batch, by the trainer.

        Raises:
            ValueError: a feature is NaN or infinite; no statistic has moved.
        """
        norms: Any = self.normalization
        norms = {name: norms[name] for name in norms.names}
        columns = self.inputs.columns(batch)
        take_in(norms, columns, self.inputs.features)
        for name in norms.keys() & columns.keys():
            norms[name].refresh()
        if self._fused_engine is not None:
            self._fused_engine.read_again()
        for encoder in (self.policy_net, self.value_net):
            if encoder is not None and encoder.backbone.relpos_encoding is not None:
                encoding, like = encoder.backbone.relpos_encoding, self._like
                prepared = self.inputs.prepare(batch)
                groups = length_groups(prepared.rows, like, False).groups
                encoding.update(encoding.places(prepared, like), [(g.index, g.real) for g in groups])

    def constant(self) -> AbstractContextManager[None]:
        """A context in which nobody but `update_normalization` changes parameters: `act` and `value` need not
        read them at each call. `evaluate` always does.

            with net.constant():
                ...  # a rollout
        """
        fused = self._fused(acting=True)
        return nullcontext() if fused is None else fused.hold()

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`, which may have more entity types and features than the network knows.

        What the network does not know is left out, by name; features may come in another order.
        `adapt_to(net.observation_space)` undoes it.

        Raises:
            ValueError: a type or feature that the network needs is missing, or the actions differ.
        """
        self.inputs.adapt_to(space)

    def summary(
        self, entity_counts: Mapping[str, float] | None = None, actors: Mapping[str, float] | None = None
    ) -> Summary:
        """Parameters, itemised, and multiply-adds of one step; see `summarize`."""
        return summarize(self, entity_counts, actors)

    @property
    def engine(self) -> EngineChoice:
        """The engine that evaluates in the module's present mode, and why."""
        return self._chooser.choose(self._like, self.training)

    def static_form(self, precision: Precision | None = None) -> StaticForm:
        """Return the network on arrays of fixed shapes, as engine "graphs" computes it, in this `precision`.

        From now on it acts in this precision; None: as before.

        Raises:
            ValueError: the network has options that have no fixed shapes.
        """
        wanted = self._precision if precision is None else precision
        form = self._static
        if form is None or form.precision != wanted or form.device != self._like.device:
            form = self._static = StaticForm(self, wanted)
            self._precision = wanted
        return form

    # -- inside ---------------------------------------------------------------------------------------------

    def _fused(self, acting: bool = False) -> FusedEngine | None:
        """The fused engine, if it is the one to use; each choice is logged at its first use."""
        if acting and self._fused_engine is not None and self._fused_engine.holds_weights:
            return self._fused_engine
        choice = self._chooser.choose(self._like, self.training and not acting)
        self._chooser.log(choice)
        if choice.name != "fused":
            return None
        if self._fused_engine is None:
            self._fused_engine = FusedEngine(self, self.inputs.features, self.action_space, self.settings)
        return self._fused_engine

    def check_actions(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> None:
        for name, action in self.action_space.spaces.items():
            if name not in actions:
                raise ValueError(f"action {name!r} is missing; there are {', '.join(actions)}")
            chosen = actions[name]
            if not np.array_equal(chosen.offsets, batch.actions[name].actors.offsets):
                raise ValueError(f"action {name!r} does not have one item for each actor of the batch")
            if isinstance(action, Categorical | SelectEntity) and (
                chosen.inner_shape or chosen.dtype.kind != "i"
            ):
                raise ValueError(
                    f"action {name!r}: items must be integers,"
                    f" got {chosen.dtype} of shape {chosen.inner_shape}"
                )

    def _static_for(self) -> StaticForm | None:
        """Return what acts if the engine is "graphs"."""
        if self.settings.engine != "graphs":
            return None
        choice = self.engine
        self._chooser.log(choice)
        return self.static_form() if choice.name == "graphs" else None

    @property
    def _like(self) -> Tensor:
        """A tensor on the network's device and of its dtype."""
        return self.value_head.proj.weight

    def _encode(self, batch: EntityBatch) -> tuple[Tensor, Rows, Tensor]:
        """Rows for the action heads (N, D), their layout, and the values (B,)."""
        prepared = self.inputs.prepare(batch)
        embedded = self.policy_net.embedding(prepared, self.normalization, self._like)
        rows, kept = prepared.rows, None
        if prepared.visible is not None:
            rows, kept = prepared.rows.keep(prepared.visible), np.flatnonzero(prepared.visible)
        x = self.policy_net.encode(embedded, prepared, kept, rows)
        if self.value_net is not None:
            return x, rows, self._values(prepared)
        seen = x if kept is None else self.policy_net.encode(embedded, prepared, None, prepared.rows)
        return x, rows, self.value_head(seen, prepared.rows)

    def _values(self, prepared: Prepared) -> Tensor:
        encoder = self.policy_net if self.value_net is None else self.value_net
        embedded = encoder.embedding(prepared, self.normalization, self._like)
        return self.value_head(encoder.encode(embedded, prepared, None, prepared.rows), prepared.rows)
