"""`Items`: composite spaces, each component an entity type of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ....envs import ObservationError
from ....ragged import RaggedArray
from .batches import components, join, size, stack
from .scope import EntityEncoder, Scope, View, ViewError, merge, one_per_observation
from .values import flat_values


@dataclass(frozen=True, repr=False)
class Items(View):
    """The components of a Dict, Tuple, Sequence, Graph or OneOf, each with a view of its own.

    Dict and Tuple: each component is viewed by itself. Sequence: each item is an entity (or, where items are
    composite, several that carry their item's position). Graph: nodes and edges are entities; edges have the
    positions of their source and target. OneOf: the alternative that is there.

    Args:
        views: how to view a component, by its path: keys and indices joined by "/", and "item", "nodes" and
            "edges" for what is in a Sequence or Graph. None drops the component. Several keys of a Dict or
            Tuple joined by "," are viewed together, as a Dict of these components. What isn't named is
            viewed as `auto` would.
    """

    views: Mapping[str, View | None] = field(default_factory=dict)

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        if isinstance(space, spaces.Dict | spaces.Tuple):
            return self._components(space, scope)
        if isinstance(space, spaces.Sequence):
            self._refuse_unknown(["item"], scope)
            return self._sequence(space, scope.without_sources())
        if isinstance(space, spaces.Graph):
            self._refuse_unknown(["nodes", "edges"], scope)
            return self._graph(space, scope.without_sources())
        if isinstance(space, spaces.OneOf):
            return self._one_of(space, scope.without_sources())
        raise scope.refuse(self, space, "a Dict, Tuple, Sequence, Graph or OneOf")

    # -- what is declared for a component -----------------------------------------------------------------

    def _refuse_unknown(self, keys: list[str], scope: Scope, groups: Sequence[str] = ()) -> None:
        for path in self.views:
            if path in groups:
                continue
            if not any(path == key or path.startswith(f"{key}/") for key in keys):
                raise ViewError(
                    f"{scope.place}: expected one of the components {keys}, got component {path!r}"
                )

    def _view(self, key: str, space: spaces.Space[Any], scope: Scope) -> View | None:
        """The view of component `key`; None to drop it."""
        if key in self.views:
            return self.views[key]
        below = {path[len(key) + 1 :]: v for path, v in self.views.items() if path.startswith(f"{key}/")}
        return Items(below) if below else scope.view_of(space)

    def _bound(self, key: str, space: spaces.Space[Any], scope: Scope) -> EntityEncoder | None:
        view = self._view(key, space, scope.at(key))
        return None if view is None else view.bind(space, scope.at(key))

    # -- the kinds of composite spaces --------------------------------------------------------------------

    def _groups(self, space: spaces.Dict | spaces.Tuple, scope: Scope) -> dict[str, list[str]]:
        """Return the components that are viewed together, by the path that names them."""
        names = [name for _, name, _ in components(space)]
        groups: dict[str, list[str]] = {}
        for path in self.views:
            members = [name.strip() for name in path.split(",")]
            if path in names or len(members) < 2 or ("/" in path and not set(members) <= set(names)):
                continue
            taken = [*self.views, *(name for group in groups.values() for name in group)]
            wrong = [n for n in members if n not in names or n in taken or members.count(n) > 1]
            if wrong:
                raise ViewError(
                    f"{scope.place}: {path!r}: expected components of {names}, each viewed once, got"
                    f" {wrong[0]!r}"
                )
            groups[path] = members
        return groups

    def _bound_components(
        self, space: spaces.Dict | spaces.Tuple | spaces.OneOf, scope: Scope, groups: Mapping[str, list[str]]
    ) -> list[tuple[Any, Scope, EntityEncoder]]:
        """Return key or index, scope and encoder of each component that is neither dropped nor in a group."""
        parts = components(space)
        self._refuse_unknown([name for _, name, _ in parts], scope, [*groups])
        grouped = {name for group in groups.values() for name in group}
        return [
            (key, scope.at(name), encoder)
            for key, name, part in parts
            if name not in grouped and (encoder := self._bound(name, part, scope)) is not None
        ]

    def _components(self, space: spaces.Dict | spaces.Tuple, scope: Scope) -> EntityEncoder:
        groups = self._groups(space, scope)
        parts = {name: (key, part) for key, name, part in components(space)}
        together: list[tuple[dict[str, Any], EntityEncoder]] = []
        for path, names in groups.items():
            view = self.views[path]
            if view is not None:
                group = spaces.Dict({name: parts[name][1] for name in names})
                together.append(({name: parts[name][0] for name in names}, view.bind(group, scope)))
        bound = self._bound_components(space, scope, groups)
        if not bound and not together:
            raise ViewError(f"{scope.place}: all components are dropped: expected one component or more")
        entities = merge(
            [(scope, encoder) for _, encoder in together] + [(part, encoder) for _, part, encoder in bound]
        )

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            rows: dict[str, RaggedArray] = {}
            for keys, encoder in together:
                rows.update(
                    encoder.encode({name: observation[key] for name, key in keys.items()}, batch_size)
                )
            for key, _, encoder in bound:
                rows.update(encoder.encode(observation[key], batch_size))
            return rows

        encoders = [*(encoder for _, encoder in together), *(encoder for *_, encoder in bound)]
        counts = {name: count for encoder in encoders for name, count in encoder.counts.items()}
        return EntityEncoder(entities, encode, counts=counts)

    def _element(self, key: str, space: spaces.Space[Any], default: str, scope: Scope) -> EntityEncoder:
        """Return the encoder of a list's items: flat items are rows of one type, named after the list."""
        if key not in self.views:
            flat = flat_values(space, scope)
            if flat is not None and not any(path.startswith(f"{key}/") for path in self.views):
                return EntityEncoder(
                    {scope.type_name(None, default): flat.names},
                    lambda items, n: {
                        scope.type_name(None, default): one_per_observation(flat.encode(items, n))
                    },
                    single=True,
                )
        encoder = self._bound(key, space, scope)
        if encoder is None:
            raise ViewError(
                f"{scope.place}: {key!r} cannot be dropped: expected a view, got None. Drop the whole"
                " component"
            )
        return encoder

    def _sequence(self, space: spaces.Sequence, scope: Scope) -> EntityEncoder:
        encoder = _with_position(self._element("item", space.feature_space, "Item", scope), "item")

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            element = space.feature_space
            parts = observation if space.stack else [stack(element, part) for part in observation]
            return _collapsed(encoder, element, list(parts))

        return EntityEncoder(encoder.entities, encode)

    def _graph(self, space: spaces.Graph, scope: Scope) -> EntityEncoder:
        nodes_scope, edges_scope = scope.at("nodes"), scope.at("edges")
        node = self._element("nodes", space.node_space, "Node", _list_scope(scope, "Node"))
        node = _with_position(node, "node", always=True)
        bound = [(nodes_scope, node)]
        edge_space: spaces.Space[Any] | None = space.edge_space
        edge = None
        if edge_space is not None and self.views.get("edges", self) is not None:
            edge = self._element("edges", edge_space, "Edge", _list_scope(scope, "Edge"))
            edge = _with_links(edge)
            bound.append((edges_scope, edge))
        entities = merge(bound)

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            rows = _collapsed(node, space.node_space, [graph.nodes for graph in observation])
            if edge is not None and edge_space is not None:
                empty = stack(edge_space, [])
                edges = [empty if graph.edges is None else graph.edges for graph in observation]
                links = [
                    np.zeros((0, 2)) if graph.edge_links is None else graph.edge_links
                    for graph in observation
                ]
                ends = np.concatenate([np.zeros((0, 2)), *links])
                nodes = [size(space.node_space, graph.nodes) for graph in observation]
                _check_links(ends, np.repeat(nodes, [len(part) for part in links]), scope)
                rows.update(_collapsed(edge, edge_space, edges, ends))
            return rows

        return EntityEncoder(entities, encode)

    def _one_of(self, space: spaces.OneOf, scope: Scope) -> EntityEncoder:
        bound = self._bound_components(space, scope, {})
        entities = merge([(part, encoder) for _, part, encoder in bound])

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            chosen = np.array([int(index) for index, _ in observation], np.int64)
            unknown = (chosen < 0) | (chosen >= len(space.spaces))
            if unknown.any():
                raise ObservationError(
                    f"{scope.place}: expected the index of an alternative, from 0 to {len(space.spaces) - 1},"
                    f" got {chosen[unknown][0]}"
                )
            rows: dict[str, RaggedArray] = {}
            for i, _, encoder in bound:
                lanes = np.flatnonzero(chosen == i)
                batch = stack(space.spaces[i], [observation[lane][1] for lane in lanes])
                for name, array in encoder.encode(batch, len(lanes)).items():
                    lengths = np.zeros(batch_size, np.int64)
                    lengths[lanes] = array.lengths
                    rows[name] = RaggedArray.from_lengths(array.values, lengths)
            return rows

        return EntityEncoder(entities, encode)


def _check_links(ends: NDArray[Any], num_nodes: NDArray[np.int64], scope: Scope) -> None:
    """Check that the ends of edges (N, 2) are nodes of their graphs, which have `num_nodes` (N,).

    Raises:
        ObservationError: an edge to a node that is not there.
    """
    wrong = ((ends < 0) | (ends >= num_nodes[:, None])).any(1)
    if wrong.any():
        edge = wrong.argmax()
        raise ObservationError(
            f"{scope.place}: edge_links: expected indices of the {num_nodes[edge]} nodes, got"
            f" {ends[edge].astype(int).tolist()}"
        )


def _list_scope(scope: Scope, kind: str) -> Scope:
    """Nodes and edges are named behind their graph's path: two types share that path."""
    return scope.at(kind) if scope.path else scope


def _with_position(encoder: EntityEncoder, feature: str, always: bool = False) -> EntityEncoder:
    """Encode items so that each row carries its item's position in the list, unless an item is one row."""
    if encoder.single and not always:
        return encoder
    while any(feature in features for features in encoder.entities.values()):
        feature = f"outer_{feature}"  # a list of lists: each level has its own
    entities = {name: (feature, *features) for name, features in encoder.entities.items()}
    return EntityEncoder(entities, encoder.encode)


def _with_links(encoder: EntityEncoder) -> EntityEncoder:
    entities = {name: ("source", "target", *features) for name, features in encoder.entities.items()}
    return EntityEncoder(entities, encoder.encode)


def _collapsed(
    encoder: EntityEncoder, element: spaces.Space[Any], parts: list[Any], links: NDArray[Any] | None = None
) -> dict[str, RaggedArray]:
    """Encode the items of B lists (each a batch of `element`) all at once, and hand them back to their lists.

    Where the encoder has features in front for it, rows get their item's position, or its `links` (items, 2).
    """
    lengths = np.array([size(element, part) for part in parts], np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    encoded = encoder.encode(join(element, parts), int(offsets[-1]))
    front = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths))[:, None] if links is None else links
    rows = {}
    for name, array in encoded.items():
        values = array.values
        if values.shape[1] < len(encoder.entities[name]):
            values = np.concatenate([array.broadcast(front), values], 1, dtype=np.float32)
        rows[name] = RaggedArray(values, array.offsets[offsets])
    return rows
