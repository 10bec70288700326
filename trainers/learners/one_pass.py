"""A gradient step of the fused network in one pass over the batch; see `one_pass_kernels`.

Shape alphabet: B steps, A actors of all actions, P numbers of all parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...policies.inputs.prepare import Prepared
from ...policies.inputs.rows import plain
from ...policies.kernels.block_kernels import backward_scratch
from ...policies.kernels.embedding_kernels import embedding_scratch
from ...policies.kernels.fused_encoder import Floats
from ...policies.kernels.fused_heads import FusedChoices, FusedSelection, HeadBatch
from ...policies.kernels.fused_network import FusedNetwork, Weights
from ...policies.kernels.heads.choice_kernels import choice_scratch
from ...policies.kernels.heads.select_kernels import select_scratch
from ...policies.kernels.heads.value_kernels import ValueMap
from ...policies.kernels.parallel import over_sequences, recycled, row_shares, workspace
from ...policies.kernels.tiles.simd import LANES
from ...policies.kernels.tiles.step_tiles import tile_capacity
from ..config import PPOConfig
from ..rollout import Samples
from .losses import Counts
from .one_pass_kernels import ActionTable, Actors, Net, Outputs, Steps, Target, learn_tiles


def goes_in_one_pass(network: FusedNetwork) -> bool:
    """Return True if `learn` supports the network: one encoder, all actions chosen by softmax."""
    softmax = (FusedChoices, FusedSelection)
    chooses = bool(network.heads) and all(isinstance(head, softmax) for head in network.heads.values())
    return chooses and network.value is network.policy


def _actors(heads: list[Any], batches: list[HeadBatch]) -> Actors:
    """All actions one behind the other."""
    none, no_flags, table, starts = np.zeros(0, np.int64), np.zeros(0, bool), [], [0] * 6
    parts = []
    for head, batch in zip(heads, batches, strict=True):
        own, actees, actee_rows, actee_offsets = batch.arrays, none, none, none
        components, used, of_choice, of_selection = none, no_flags, [0, 0], [0, 0]
        if isinstance(head, FusedSelection):
            actees, actee_rows, actee_offsets = own.actees, own.actee_rows, own.actee_offsets
            pairs, of_selection = own.pair_offsets, [head.width, own.capacity]
        else:
            actee_offsets = pairs = np.zeros_like(batch.offsets)
            components, used, of_choice = head.components, head.used, [head.parts, int(head.counts_all)]
        table.append([*starts, head.place, *of_choice, *of_selection])
        started: tuple[Any, ...] = (own.rows, own.mask, own.chosen, actees, components, used)
        starts = [start + len(array) for start, array in zip(starts, started, strict=True)]
        actors = (own.rows, batch.offsets, own.mask, own.chosen)
        parts.append((*actors, actee_rows, actees, actee_offsets, pairs, components, used))
    return Actors(ActionTable(*np.array(table).T.copy()), *map(_joined, zip(*parts, strict=True)))


def _head_scratch(head: Any, batch: HeadBatch, d: int) -> int:
    """Numbers of scratch memory for the kernels of a head."""
    if isinstance(head, FusedSelection):
        return select_scratch(d, head.width, batch.arrays.capacity)
    return choice_scratch(d, head.num_choices, head.parts)


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """One array, without a copy where there is but one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def learn_in_one_pass(
    network: FusedNetwork,
    weights: Weights,
    prepared: Prepared,
    samples: Samples,
    counts: Counts,
    config: PPOConfig,
    ent_coef: float,
) -> tuple[Floats, NDArray[np.float64]]:
    """Return the gradients (P,) of `ppo_losses`, and the sums (6,) that `loss_kernels` names.

    Every actor is a unit, and no entity is hidden.

    Raises:
        ValueError: a mask does not fit the batch, or an action is masked.
    """
    masks, actions = samples.observations.actions, samples.actions
    encoder, names = network.policy, list(network.heads)
    heads: list[Any] = list(network.heads.values())
    d, rows = encoder.d, prepared.rows
    batches = [head.read(rows, masks[head.name], actions[head.name]) for head in heads]
    table, actors = encoder.table(prepared), _actors(heads, batches)
    net = Net(
        weights.flat, weights.policy, encoder.blocks_place,
        ValueMap(weights.flat, network.value_head, d), encoder.shape,
    )  # fmt: skip
    steps = Steps(
        table.types,
        np.concatenate([np.zeros(0, np.int64), *table.offsets]),
        table.destination,
        rows.offsets,
    )
    scale, share = 1.0 / counts.units, 0.5 / counts.steps
    log_probs = _joined([samples.log_probs[name].values for name in names])
    before, values, advantages, returns = (
        plain(numbers.astype(np.float32, copy=False))
        for numbers in (log_probs, samples.values, samples.advantages, samples.returns)
    )
    target = Target(
        before, values, advantages, returns, config.clip_coef, config.clip_vloss,
        scale, -ent_coef * scale, config.vf_coef * share,
    )  # fmt: skip
    num_actors, num_steps = len(actors.rows), len(rows)
    out = Outputs(
        *(recycled(rows.num_rows * d) for _ in range(2)),
        *np.empty((4, num_actors), np.float32),
        *np.empty((2, num_steps), np.float32),
    )
    shares = row_shares(rows.num_rows)
    parts, sums = np.zeros((shares, network.layout.room), np.float32), np.zeros((shares, 6))
    capacity = tile_capacity(rows.longest, d)
    sizes = (
        backward_scratch(encoder.shape, capacity, encoder.shape.layers),
        embedding_scratch(encoder.widths, d, capacity),
        max(d, *(_head_scratch(head, batch, d) for head, batch in zip(heads, batches, strict=True))),
    )
    selects = True if any(isinstance(head, FusedSelection) for head in heads) else None
    wrong: list[tuple[int, int]] = []

    def run(part: int, first: int, last: int) -> None:
        action, actor = learn_tiles(
            net, steps, actors, target, out, selects, parts[part], first, last, tile_capacity(0, d),
            sums[part], *_scratch(sizes),
        )  # fmt: skip
        if actor >= 0:
            wrong.append((action, actor))

    over_sequences(rows.offsets, run)
    if wrong:
        action, actor = min(wrong)
        heads[action].refuse(batches[action], actions[names[action]], actor)
    g = parts[0] if shares == 1 else parts.sum(0)
    encoder.unfold(weights.flat, g)
    return g, sums.sum(0)


def _scratch(sizes: tuple[int, ...]) -> list[Floats]:
    """This thread's scratch memory in parts of at least these sizes, each from where a cache line starts."""
    starts = np.cumsum([0, *(-(-size // LANES) * LANES for size in sizes)])
    memory = workspace(int(starts[-1]))
    return [memory[start:] for start in starts[:-1]]
