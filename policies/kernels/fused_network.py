"""The whole network on plain arrays: acts, evaluates and gives gradients by kernels alone; no torch.

Shape alphabet: B steps, N rows, D width, A actors of one action at all steps, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...envs import ActionMask, EntityActionSpace
from ...ragged import RaggedArray
from ..inputs.prepare import Prepared
from ..policy import ActResult
from ..rogue_net.config import RogueNetConfig
from .fused_encoder import EncoderRun, Floats, FusedEncoder
from .fused_heads import FusedHead, HeadBatch, fused_head
from .heads.value_kernels import ValueMap, evaluate_values, values_backward
from .parallel import over_sequences, recycled, row_shares, workspace
from .parameter_layout import Entry, Layout
from .relative_parameters import RELATIVE


class Weights(NamedTuple):
    """All parameters, and those of the blocks with the layer norms folded in (see `block_kernels`)."""

    flat: Floats  # (P,), as `FusedNetwork.layout` says
    policy: Floats  # the policy's blocks
    value: Floats  # the value function's blocks


@dataclass(eq=False)
class Encoded:
    """A batch in the network."""

    prepared: Prepared
    visible: NDArray[np.int64] | None  # the rows that are visible to the policy; None: all
    policy: EncoderRun  # what the action heads read
    value: EncoderRun  # what the value head reads; the same one, if both read the same
    values: Floats  # (B,)
    tasks: dict[str, HeadBatch] = field(default_factory=dict)


class FusedNetwork:
    """Runs the kernels of a whole `RogueNet`, whose parameters lie in one flat array.

        network = FusedNetwork(features, action_space, settings)
        weights = network.weights(network.layout.pack(lambda entry: ...))
        result = network.act(inputs.prepare(batch), batch.actions, weights, rng)

    It has no state: several threads may use one at once.
    """

    def __init__(
        self,
        features: Mapping[str, tuple[str, ...]],
        action_space: EntityActionSpace,
        settings: RogueNetConfig,
    ) -> None:
        """`features`: names of the features of each entity type, as in `Inputs.features`."""
        self.layout = Layout()
        own = settings.for_value()
        self.policy = FusedEncoder(self.layout, "policy_net.", features, settings)
        self.value = self.policy
        if settings.separate_value_net:
            self.value = FusedEncoder(self.layout, "value_net.", features, own)
        self.heads: dict[str, FusedHead] = {
            name: fused_head(self.layout, name, action, settings)
            for name, action in action_space.spaces.items()
        }
        #: Where the value head's parameters start.
        self.value_head = self.layout.add("value_head", None, proj__weight=(1, own.d_model), proj__bias=(1,))

    def weights(self, flat: Floats) -> Weights:
        """Return the parameters (`layout.room`,) in the form that the methods below take."""
        folded = self.policy.fold(flat)
        return Weights(flat, folded, folded if self.value is self.policy else self.value.fold(flat))

    def _value_head(self, weights: Weights) -> ValueMap:
        return ValueMap(weights.flat, self.value_head, self.value.d)

    def learns(self, entry: Entry, prepared: Prepared, heads: Collection[str], values: bool) -> bool:
        """Return True if a parameter has a gradient, given those of some heads (and of the `values`).

        Statistics have none, nor has a parameter of an entity type that does not occur in the batch, or of
        pairs where there are none.
        """
        place = entry.place
        if place.endswith(RELATIVE) and not (self.policy.shape.layers and prepared.rows.num_rows):
            return False
        if place in ("normalization", "action_heads"):
            return place == "action_heads" and entry.name in heads
        if place.startswith("value_"):
            wanted = values
        else:
            wanted = bool(heads) or (values and self.value is self.policy)
        return wanted and (not place.endswith("embedding.types") or entry.name in prepared.features)

    # -- forward --------------------------------------------------------------------------------------------

    def act(
        self,
        prepared: Prepared,
        masks: Mapping[str, ActionMask],
        weights: Weights,
        rng: np.random.Generator | None,
    ) -> ActResult:
        """Draw an action for every actor with `rng`; None: take the most probable one.

        Raises:
            ValueError: a mask does not fit the batch, or leaves an actor no allowed action.
        """
        encoded = self._start(prepared, weights, learns=False)
        over_sequences(
            prepared.rows.offsets, lambda _, first, last: self._encode(encoded, weights, first, last)
        )
        actions, log_probs, raw = {}, {}, {}
        for name, head in self.heads.items():
            mask = masks[name]
            batch = head.read(encoded.policy.rows, mask, None)
            chosen = head.draw(encoded.policy.out, weights.flat, batch, rng)
            actions[name] = RaggedArray.unchecked(chosen.actions, mask.actors.offsets)
            log_probs[name] = RaggedArray.unchecked(chosen.log_probs, mask.actors.offsets)
            if chosen.raw is not None:
                raw[name] = RaggedArray.unchecked(chosen.raw, mask.actors.offsets)
        return ActResult(actions, log_probs, encoded.values, raw)

    def values(self, prepared: Prepared, weights: Weights) -> Floats:
        """Return the predicted return of each step (B,)."""
        encoded = self._start(prepared, weights, learns=False)
        over_sequences(
            prepared.rows.offsets, lambda _, first, last: self._compute_values(encoded, weights, first, last)
        )
        return encoded.values

    def log_probs(
        self, prepared: Prepared, masks: Mapping[str, ActionMask], weights: Weights
    ) -> dict[str, Floats]:
        """Return the log-probability of every choice; same contract as `RogueNet.log_probs`.

        Raises:
            ValueError: a mask does not fit the batch.
        """
        encoded = self._start(prepared, weights, learns=False)
        over_sequences(
            prepared.rows.offsets, lambda _, first, last: self._encode(encoded, weights, first, last)
        )
        found = {
            name: head.log_probs(
                encoded.policy.out, weights.flat, head.read(encoded.policy.rows, masks[name], None)
            )
            for name, head in self.heads.items()
        }
        return {name: log_probs for name, log_probs in found.items() if log_probs is not None}

    def evaluate(
        self,
        prepared: Prepared,
        masks: Mapping[str, ActionMask],
        actions: Mapping[str, RaggedArray],
        weights: Weights,
        learns: bool = True,
    ) -> tuple[dict[str, Floats], dict[str, Floats], Encoded]:
        """Return log-probabilities and entropies (A,) of each action, and the batch in the network: it has
        the values, and if the network `learns`, what `gradients` needs.

        Raises:
            ValueError: a mask does not fit the batch, or an action is masked.
        """
        encoded = self._start(prepared, weights, learns)
        x = encoded.policy.out
        tasks = encoded.tasks
        for name, head in self.heads.items():
            tasks[name] = head.read(encoded.policy.rows, masks[name], actions[name])
        log_probs = {name: np.empty(batch.num_actors, np.float32) for name, batch in tasks.items()}
        entropies = {name: np.empty(batch.num_actors, np.float32) for name, batch in tasks.items()}
        wrong: dict[str, int] = {}

        def run(share: int, first: int, last: int) -> None:
            self._encode(encoded, weights, first, last)
            for name, head in self.heads.items():
                actor = head.evaluate(
                    x, weights.flat, tasks[name], log_probs[name], entropies[name], first, last
                )
                if actor >= 0:
                    wrong[name] = min(actor, wrong.get(name, actor))

        over_sequences(prepared.rows.offsets, run)
        for name, head in self.heads.items():
            if name in wrong:
                head.refuse(tasks[name], actions[name], wrong[name])
        return log_probs, entropies, encoded

    def _start(self, prepared: Prepared, weights: Weights, learns: bool) -> Encoded:
        """Allocate memory for a batch in the network."""
        rows, visible = prepared.rows, None
        policy = value = self.value.start(prepared, rows, weights.flat, weights.value, learns)
        if prepared.visible is not None:
            rows, visible = rows.keep(prepared.visible), np.flatnonzero(prepared.visible)
        if visible is not None or self.value is not self.policy:
            policy = self.policy.start(prepared, rows, weights.flat, weights.policy, learns)
        return Encoded(prepared, visible, policy, value, np.empty(len(prepared.rows), np.float32))

    def _encode(self, e: Encoded, weights: Weights, first: int, last: int) -> None:
        """Compute values, and rows for the action heads, of steps first to last."""
        self._compute_values(e, weights, first, last)
        if e.policy is e.value:
            return
        if e.visible is None:
            e.policy.embed(first, last)
        else:
            everything, d = e.value.embedded, self.policy.d
            if self.value is not self.policy:
                everything = np.empty(e.prepared.rows.num_rows * d, np.float32)
                e.policy.embed(first, last, everything)
            start, stop = e.policy.rows.offsets[first], e.policy.rows.offsets[last]
            e.policy.embedded.reshape(-1, d)[start:stop] = everything.reshape(-1, d)[e.visible[start:stop]]
        e.policy.blocks(first, last)

    def _compute_values(self, e: Encoded, weights: Weights, first: int, last: int) -> None:
        """Compute the values of steps first to last, and the rows that they need."""
        e.value.embed(first, last)
        e.value.blocks(first, last)
        head = self._value_head(weights)
        offsets = e.prepared.rows.offsets
        evaluate_values(head, e.value.out, offsets, first, last, e.values, workspace(head.d))

    # -- backward -------------------------------------------------------------------------------------------

    def gradients(
        self,
        encoded: Encoded,
        weights: Weights,
        d_log_probs: Mapping[str, Floats],
        d_entropies: Mapping[str, Floats],
        d_values: Floats,
    ) -> Floats:
        """Return the gradients (P,) of all parameters, from those of log-probabilities, entropies and values.

        Heads that are left out have no part in the loss.
        """
        rows, e, head = encoded.prepared.rows, encoded, self._value_head(weights)
        parts = np.zeros((row_shares(rows.num_rows), self.layout.room), np.float32)
        x, seen = e.policy.out, e.value.out
        d_seen = recycled(len(seen))
        d_x = d_seen if e.policy is e.value else np.zeros_like(x)

        def run(share: int, first: int, last: int) -> None:
            g = parts[share]
            values_backward(head, seen, rows.offsets, first, last, d_values, d_seen, g, workspace(head.d))
            for name, given in d_log_probs.items():
                self.heads[name].backward(
                    x, weights.flat, e.tasks[name], given, d_entropies[name], d_x, g, first, last
                )
            # Tile by tile, so the gradients of rows may take the place of those that they came from.
            e.value.blocks_backward(d_seen, d_seen, g, first, last)
            if e.policy is not e.value:
                e.policy.blocks_backward(d_x, d_x, g, first, last)
                self._embedding_backward(e, d_x, d_seen, g, first, last)
            e.value.embed_backward(d_seen, g, first, last)

        over_sequences(rows.offsets, run)
        g = parts[0] if len(parts) == 1 else parts.sum(0)
        self.policy.unfold(weights.flat, g)
        if self.value is not self.policy:
            self.value.unfold(weights.flat, g)
        return g

    def _embedding_backward(
        self, e: Encoded, d_x: Floats, d_seen: Floats, g: Floats, first: int, last: int
    ) -> None:
        """Add the gradients of the policy's embedding where the value function has rows of its own."""
        d, start, stop = self.policy.d, e.policy.rows.offsets[first], e.policy.rows.offsets[last]
        given = d_x
        if e.visible is not None:
            shared = self.value is self.policy
            given = d_seen if shared else np.zeros(e.prepared.rows.num_rows * d, np.float32)
            given.reshape(-1, d)[e.visible[start:stop]] += d_x.reshape(-1, d)[start:stop]
            if shared:
                return  # the value function's backward takes them along
        e.policy.embed_backward(given, g, first, last)
