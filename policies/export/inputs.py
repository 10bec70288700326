"""Nodes that compute what the network sees of a step: translation, Fourier features, global features.

Shape alphabet: n entities of one type, F features, P of them positions, G global features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...envs import EntitySpace
from ..inputs.prepare import GLOBAL, Inputs
from ..rogue_net.config import FourierFeatures, RogueNetConfig, Translation
from .graph import Graph, Value

#: Sines and cosines below this are 0, as in `inputs.fourier`.
_ROUNDING = np.float32(2 * math.pi * 1e-5)

Names = Mapping[str, tuple[str, ...]]


class Observed(NamedTuple):
    """The arrays of an observation dict as inputs of the graph."""

    entities: dict[str, Value]  # by type (n, F)
    globals: Value | None  # (G,)
    visible: dict[str, Value]  # by type (n,) int8; empty where nothing can be hidden
    actions: dict[str, dict[str, Value]]  # by action: actors, actees and mask, where it has them


def observe(graph: Graph, space: EntitySpace) -> Observed:
    """Add the inputs, named by their place in an observation dict: "entities/Mine", "actions/move/mask"."""
    entities = {
        name: graph.input(f"entities/{name}", np.float32, (f"num_{name}", len(features)))
        for name, features in space.entities.items()
    }
    count = len(space.global_features)
    visible = {}
    if space.hidden:
        visible = {name: graph.input(f"visible/{name}", np.int8, (f"num_{name}",)) for name in space.entities}
    actions: dict[str, dict[str, Value]] = {}
    for name, action in space.actions.items():
        masks = actions[name] = {}
        for key in action.mask_keys:
            place = f"actions/{name}/{key}"
            if key != "mask":
                masks[key] = graph.input(place, np.int64, (f"{name}_{key}",))
            elif action.selects_entities:
                masks[key] = graph.input(place, np.int8, (f"{name}_pairs",))
            elif action.mask_columns:
                masks[key] = graph.input(place, np.int8, (f"{name}_actors", action.mask_columns))
    return Observed(
        entities, graph.input("globals", np.float32, (count,)) if count else None, visible, actions
    )


def prepare(graph: Graph, inputs: Inputs, settings: RogueNetConfig, observed: Observed) -> dict[str, Value]:
    """Return the features of each type as the network sees them before normalization; see `inputs.prepare`.

    In the order of the rows: the types of the space, then the row of the step as a whole, if there is one.
    """
    names: Names = inputs.space.entities
    values = dict(observed.entities)
    if settings.translation is not None:
        values = _translate(graph, settings.translation, names, values, observed.visible)
    if settings.fourier is not None:
        values = _append_waves(graph, settings.fourier, names, values)
    if observed.globals is not None:
        row = graph.add("Unsqueeze", observed.globals, np.zeros(1, np.int64))  # (1, G)
        if inputs.concatenates:
            count = len(inputs.space.global_features)
            values = {
                name: graph.join([value, graph.expand(row, value, [count])], 1)
                for name, value in values.items()
            }
        if inputs.has_global_row:
            values[GLOBAL] = row
    if inputs.has_global_row and GLOBAL not in values:
        values[GLOBAL] = graph.constant(np.zeros((1, 0), np.float32))
    return values


# -- positions relative to a reference -----------------------------------------------------------------------


def _translate(
    graph: Graph, config: Translation, names: Names, values: dict[str, Value], visible: Mapping[str, Value]
) -> dict[str, Value]:
    """Do what `inputs.translation.Translator` does.

    Sums over no visible reference are 0, which leaves positions as they are.
    """
    own = names[config.reference]
    everywhere = reference = values[config.reference]
    shown = None
    if config.reference in visible:
        flags = graph.add("Unsqueeze", visible[config.reference], np.ones(1, np.int64))  # (n, 1)
        shown = graph.cast(flags, np.bool_)
        reference = graph.add("Where", shown, everywhere, np.float32(0))
    origin = graph.reduce("Sum", graph.columns(reference, _places(own, config.position)), 0)  # (1, P)
    rotation = _rotation(graph, config, own, reference)
    result = dict(values)
    for name, features in names.items():
        if name == config.reference or any(feature not in features for feature in config.position):
            continue
        columns = _places(features, config.position)
        moved = graph.add("Sub", graph.columns(values[name], columns), origin)
        if rotation is not None:
            moved = graph.add("MatMul", moved, rotation)
        order = list(range(len(features)))
        for i, column in enumerate(columns):
            order[column] = len(features) + i
        result[name] = graph.columns(graph.join([values[name], moved], 1), order)
        if config.add_distance:
            result[name] = graph.join([result[name], graph.norm(moved, 1)], 1)
    if not config.keep_reference:
        moved = _at_origin(graph, config, own, everywhere)
        result[config.reference] = moved if shown is None else graph.add("Where", shown, moved, everywhere)
    return result


def _rotation(graph: Graph, config: Translation, own: tuple[str, ...], reference: Value) -> Value | None:
    """Return the matrix (2, 2) that turns rows by minus the reference's heading."""
    if not config.heading:
        return None
    heading = graph.reduce("Sum", graph.columns(reference, _places(own, config.heading)), 0)
    if config.rotation_angle:
        cosine, sine = graph.add("Cos", heading), graph.add("Sin", heading)  # (1, 1)
    else:
        length = graph.norm(heading, 1)
        known = graph.add("Greater", length, np.float32(0))
        unit = graph.add("Div", heading, graph.add("Where", known, length, np.float32(1)))
        unit = graph.add("Where", known, unit, np.array([[1, 0]], np.float32))
        cosine, sine = graph.split(unit, [1, 1], 1)
    numbers = graph.join([cosine, graph.add("Neg", sine), sine, cosine], 1)
    return graph.add("Reshape", numbers, [2, 2])


def _at_origin(graph: Graph, config: Translation, own: tuple[str, ...], reference: Value) -> Value:
    """Set the reference's position and heading to 0, a heading vector to (1, 0)."""
    kept, added = np.ones(len(own), np.float32), np.zeros(len(own), np.float32)
    kept[_places(own, (*config.position, *config.heading))] = 0
    if config.rotation_vector:
        added[own.index(config.rotation_vector[0])] = 1
    return graph.add("Add", graph.add("Mul", reference, kept), added)


def _places(names: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
    return [names.index(name) for name in wanted]


# -- Fourier features ----------------------------------------------------------------------------------------


def _append_waves(
    graph: Graph, config: FourierFeatures, names: Names, values: dict[str, Value]
) -> dict[str, Value]:
    """Do what `inputs.fourier.FourierEncoder` does, in float64: float32 lacks digits for many turns."""
    frequencies = 2 * math.pi / np.array(config.wavelengths)
    result = dict(values)
    for name, features in names.items():
        wanted = tuple(feature for feature in config.features if feature in features)
        if not wanted:
            continue
        position = graph.cast(graph.columns(values[name], _places(features, wanted)), np.float64)
        angles = graph.add("Mul", graph.add("Unsqueeze", position, [2]), frequencies)  # (n, P, W)
        waves = [graph.add("Unsqueeze", graph.add(op, angles), [3]) for op in ("Sin", "Cos")]
        both = graph.cast(graph.join(waves, 3), np.float32)  # (n, P, W, 2)
        both = graph.add("Reshape", both, [0, 2 * len(wanted) * len(frequencies)])
        tiny = graph.add("Less", graph.add("Abs", both), _ROUNDING)
        result[name] = graph.join([values[name], graph.add("Where", tiny, np.float32(0), both)], 1)
    return result
