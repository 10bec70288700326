"""RogueNet in torch: a transformer over the entities of a step. This is the definition of what is trained.

Every other engine (`policies.engines`) computes the same and is compared with it before it is used.
Shape alphabet: B steps, N rows (entities of all steps, and the rows of steps as a whole), D width, A actors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import (
    ActionMask,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    MultiCategorical,
    SelectEntity,
)
from ...ragged import RaggedArray
from ..compilation import not_compiled
from ..inputs.actors import Drawn, items_of
from ..inputs.prepare import Inputs, Prepared
from ..inputs.rows import RowLayout
from ..policy import ActResult, Evaluation, Explanation
from .attention import length_groups
from .blocks import Backbone
from .composite import ConditionalChoices
from .config import RogueNetConfig, from_options
from .embedding import Embedding
from .explanation import check_one_step, entities_of_rows, watch_attention
from .gaussian import GaussianHead
from .heads import Choices, LogitsHead, SelectEntityHead, ValueHead
from .names import NamedModules
from .normalization import InputNorm, take_in
from .tensors import as_tensor


class Encoder(nn.Module):
    """Embedding and transformer blocks: raw features to one row (D,) per entity."""

    def __init__(self, config: RogueNetConfig, features: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.embedding = Embedding(features, config.d_model)
        self.backbone = Backbone(config, features)

    def encode(
        self, x: Tensor, prepared: Prepared, kept: NDArray[np.int64] | None, rows: RowLayout
    ) -> Tensor:
        """Run the blocks over embedded rows (N, D), of which `kept` stay (None: all), laid out as `rows`."""
        encoding = self.backbone.relpos_encoding
        places = None if encoding is None else encoding.places(prepared, x)
        if kept is not None:
            index = as_tensor(kept, x)
            x = x.index_select(0, index)
            places = None if places is None else places.select(index)
        return self.backbone(x, rows, places)


class RogueNetwork(nn.Module):
    """The modules of RogueNet and what torch computes with them; `RogueNet` adds the other engines."""

    def __init__(
        self, observation_space: EntitySpace, action_space: EntityActionSpace, **options: Any
    ) -> None:
        super().__init__()
        if not isinstance(observation_space, EntitySpace) or not isinstance(action_space, EntityActionSpace):
            raise TypeError(
                "RogueNet: expected an EntitySpace and an EntityActionSpace, got"
                f" {type(observation_space).__name__} and {type(action_space).__name__}. A vector environment"
                " has them as single_observation_space and single_action_space."
            )
        self.observation_space = observation_space
        self.action_space = action_space
        self.settings = settings = from_options(RogueNetConfig, options)
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

    def _head(self, name: str, action: Any) -> nn.Module:
        """Return a new head for one action."""
        match action:
            case Categorical():
                return LogitsHead(Choices(name), action.num_choices, self.settings.d_model, action.is_global)
            case Continuous():
                return GaussianHead(name, action, self.settings)
            case MultiCategorical():
                distribution = ConditionalChoices(name, action, self.settings.composite)
                return LogitsHead(distribution, action.num_choices, self.settings.d_model, False)
            case SelectEntity():
                return SelectEntityHead(name, self.settings.d_model, self.settings.d_qk)
        raise TypeError(f"action {name!r}: RogueNet has no head for {action!r}")

    # -- the computation ------------------------------------------------------------------------------------

    def encode(self, prepared: Prepared) -> tuple[Tensor, RowLayout, Tensor]:
        """Return rows for the action heads (N, D), their layout, and the values (B,).

        Hidden entities are rows for the values only: the blocks then run twice, over the visible rows for the
        actions and over all rows for the values.
        """
        embedded = self.policy_net.embedding(prepared, self.normalization, self.like)  # (N, D)
        rows, kept = prepared.rows, None
        if prepared.visible is not None:
            rows, kept = prepared.rows.keep(prepared.visible), np.flatnonzero(prepared.visible)
        x = self.policy_net.encode(embedded, prepared, kept, rows)  # (visible rows, D)
        if self.value_net is not None:
            return x, rows, self.predict(prepared)
        everything = x if kept is None else self.policy_net.encode(embedded, prepared, None, prepared.rows)
        return x, rows, self.value_head(everything, prepared.rows)

    def predict(self, prepared: Prepared) -> Tensor:
        """Return the values (B,)."""
        encoder = self.policy_net if self.value_net is None else self.value_net
        x = encoder.embedding(prepared, self.normalization, self.like)  # (N, D)
        x = encoder.encode(x, prepared, None, prepared.rows)  # (N, D)
        return self.value_head(x, prepared.rows)

    def estimate(self, prepared: Prepared) -> Tensor:
        """Return the values (B,) of `predict`; where `encode` alone is overridden, those of that."""
        encode, predict = (getattr(m, "__func__", None) for m in (self.encode, self.predict))
        if predict is RogueNetwork.predict and encode is not RogueNetwork.encode:
            return self.encode(prepared)[2]
        return self.predict(prepared)

    def draw(
        self, prepared: Prepared, masks: Mapping[str, ActionMask], rng: np.random.Generator | None
    ) -> ActResult:
        """Choose an action for every actor from `rng`, or (None) the most probable."""
        x, rows, values = self.encode(prepared)  # (N, D), _, (B,)
        draws: dict[str, Drawn] = {
            name: self.action_heads[name].draw(x, rows, masks[name], rng)  # type: ignore[operator]
            for name in self.action_heads.names
        }
        return ActResult.from_draws(draws, masks, values.float().cpu().numpy())

    def assess(
        self, prepared: Prepared, masks: Mapping[str, ActionMask], actions: Mapping[str, RaggedArray]
    ) -> Evaluation:
        """Return log-probabilities and entropies of `actions`, and values, with gradients."""
        x, rows, values = self.encode(prepared)  # (N, D), _, (B,)
        log_probs, entropies = {}, {}
        for name in self.action_heads.names:
            log_probs[name], entropies[name] = self.action_heads[name].evaluate(  # type: ignore[operator]
                x, rows, masks[name], actions[name]
            )  # (A,), (A,)
        return Evaluation(log_probs, entropies, values)

    # -- the policy's interface -----------------------------------------------------------------------------

    @not_compiled
    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose an action for every actor; see `Policy.act`.

        Raises:
            ValueError: the batch does not fit the space, or the mask of an actor allows nothing.
        """
        with torch.inference_mode():
            return self.draw(self.inputs.prepare(batch), batch.actions, None if deterministic else rng)

    @not_compiled
    def value(self, batch: EntityBatch) -> NDArray[np.float32]:
        """Return the predicted return of each step (B,), without gradients."""
        with torch.inference_mode():
            return self.estimate(self.inputs.prepare(batch)).float().cpu().numpy()

    @not_compiled
    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return log-probabilities, entropies and values of `actions` taken at `batch`, with gradients.

        `actions` are as in `ActResult.raw`; `as_raw` makes them of others.

        Raises:
            TypeError: the actions are no dict of ragged arrays.
            ValueError: an action is missing, has the wrong number of items, or is masked.
        """
        prepared = self.inputs.prepare(batch)
        self.check_actions(batch, actions)
        return self.assess(prepared, batch.actions, actions)

    @not_compiled
    def log_probs(self, batch: EntityBatch) -> dict[str, Tensor]:
        """Return the log-probability of every choice at each step, with gradients; torch computes them.

        Returns:
            per action, of the shape of `batch.actions[name].mask.values`: (A, C) for choices; (P,) for the
            pairs of select-entity, each actor with every actee of its step. Those of conditional
            multi-discrete actions are among the choices of their component. Forbidden choices have -inf.
            Continuous actions have no list of choices, and are left out.

        Raises:
            TypeError: `batch` is no batch.
            ValueError: the batch does not fit the space.
        """
        x, rows, _ = self.encode(self.inputs.prepare(batch))  # (N, D)
        heads: dict[str, Any] = {name: self.action_heads[name] for name in self.action_heads.names}
        return {
            name: head.log_probs(x, rows, batch.actions[name])
            for name, head in heads.items()
            if hasattr(head, "log_probs")
        }

    def forward(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        """Return `evaluate(batch, actions)`."""
        return self.evaluate(batch, actions)

    @not_compiled
    def explain(self, batch: EntityBatch) -> Explanation:
        """Return distributions of actions and attention weights at a single step.

        Raises:
            ValueError: the batch does not fit the space, or has another number of steps.
        """
        check_one_step(batch)
        blocks = self.policy_net.backbone.blocks
        with torch.inference_mode(), watch_attention(blocks) as weights:
            x, rows, _ = self.encode(self.inputs.prepare(batch))  # (n, D)
            distributions = {
                name: self.action_heads[name].explain(x, rows, batch.actions[name]).float().cpu().numpy()  # type: ignore[operator]
                for name in self.action_heads.names
            }
        return Explanation(distributions, tuple(weights[: len(blocks)]), entities_of_rows(rows))

    def as_raw(self, actions: Mapping[str, RaggedArray]) -> dict[str, RaggedArray]:
        """Return actions of any origin (demonstrations, say) in the form that `evaluate` takes.

        Only continuous ones change, to the numbers from which the network would have made them.

        Raises:
            ValueError: a continuous action of another shape or dtype, or one that is not finite.
        """
        return {name: self.action_heads[name].as_raw(chosen) for name, chosen in actions.items()}  # type: ignore[operator]

    def as_drawn(self, actions: Mapping[str, RaggedArray]) -> dict[str, RaggedArray]:
        """Deprecated name of `as_raw`."""
        warnings.warn(
            "RogueNet.as_drawn is deprecated: use RogueNet.as_raw.", DeprecationWarning, stacklevel=2
        )
        return self.as_raw(actions)

    @not_compiled
    def update_normalization(self, batch: EntityBatch) -> None:
        """Update the statistics of the inputs by `batch`: once per collected batch, by the trainer.

        Raises:
            ValueError: a feature is NaN or infinite; no statistic has changed.
        """
        norms: Any = {name: self.normalization[name] for name in self.normalization.names}
        take_in(norms, self.inputs.columns(batch), self.inputs.features)
        for norm in norms.values():
            norm.refresh()
        for encoder in (self.policy_net, self.value_net):
            if encoder is not None and encoder.backbone.relpos_encoding is not None:
                encoding = encoder.backbone.relpos_encoding
                prepared = self.inputs.prepare(batch)
                groups = length_groups(prepared.rows, self.like).groups
                encoding.update(encoding.places(prepared, self.like), [(g.index, g.real) for g in groups])

    def adapt_to(self, space: EntitySpace) -> None:
        """Read batches of `space`, which may have more entity types and features than the network knows.

        What the network does not know is ignored, by name; features may come in another order.
        `adapt_to(net.observation_space)` undoes it.

        Raises:
            TypeError: `space` is no `EntitySpace`.
            ValueError: a type or feature that the network needs is missing, or the actions differ.
        """
        self.inputs.adapt_to(space)

    @property
    def reads(self) -> EntitySpace:
        """The space whose batches it reads: `observation_space`, or another one after `adapt_to`."""
        return self.inputs.reads

    def check_actions(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> None:
        """
        Raises:
            ValueError: an action is missing, has the wrong number of items, or items of another kind.
        """
        for name, action in self.action_space.spaces.items():
            chosen = items_of(name, actions, batch.actions[name].actors)
            if isinstance(action, Categorical | SelectEntity) and (
                chosen.inner_shape or chosen.dtype.kind != "i"
            ):
                raise ValueError(
                    f"action {name!r}: expected single integers as items,"
                    f" got {chosen.dtype} of shape {chosen.inner_shape}"
                )

    @property
    def like(self) -> Tensor:
        """A tensor on the network's device and of its dtype."""
        return next(self.policy_net.parameters())
