"""`UnitActionNet`: unit action simulation (UAS) of Gym-μRTS, one unit after the other.

Huang et al. 2021 (arXiv:2105.13807). Shape alphabet: B steps, N entities, A actors, C choices of all
components of an action, M components, K kinds, P planes, H and W height and width of the map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...envs import ActionMask
from ...ragged import RaggedArray
from ..inputs.actors import FORBIDDEN, Drawn
from ..rogue_net.sampling import draw_choices
from ..rogue_net.tensors import as_tensor
from .config import ImpalaConfig
from .cost import convolution_cost
from .entity_map import MapEntities
from .gridnet import scaled
from .impala import ImpalaEncoder
from .map_policy import ImagePolicy


@dataclass(frozen=True, eq=False)
class _Turns:
    """The turns of the actors of each step."""

    steps: NDArray[np.int64]  # (A,): the step of each actor
    cells: NDArray[np.int64]  # (A,): its cell
    ranks: NDArray[np.int64]  # (A,): how many of its step had their turn before it
    #: Pairs of actors of one step (Q,), each with each and with itself.
    one: NDArray[np.int64]
    other: NDArray[np.int64]

    @classmethod
    def of(cls, offsets: NDArray[np.int64], cells: NDArray[np.int64], ranks: NDArray[np.int64]) -> _Turns:
        lengths = np.diff(offsets)
        steps = np.repeat(np.arange(len(lengths)), lengths)
        one = np.repeat(np.arange(len(steps)), lengths[steps])
        starts = np.concatenate([[0], np.cumsum(lengths[steps])[:-1]]) if len(steps) else steps
        other = np.arange(len(one)) - starts[one] + offsets[steps[one]]
        return cls(steps, cells, ranks, one, other)

    def before(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs (one, other) of which the other had its turn before the one."""
        earlier = self.ranks[self.other] < self.ranks[self.one]
        return self.one[earlier], self.other[earlier]

    def waiting(self, num_cells: int) -> NDArray[np.bool_]:
        """At each actor's turn the cells of those that wait for theirs, itself among them (A, H · W)."""
        waiting = np.zeros((len(self.steps), num_cells), bool)
        later = self.ranks[self.other] >= self.ranks[self.one]
        waiting[self.one[later], self.cells[self.other[later]]] = True
        return waiting


class UnitActionNet(ImagePolicy):
    """IMPALA's network, evaluated once per unit to choose the next unit and its action. A `Policy`.

        net = UnitActionNet(venv.single_observation_space, venv.single_action_space, height=16, width=16)

    At each turn the network gets the map with the actions chosen so far, picks one of the remaining units by
    a softmax over their cells, and chooses its action. An action changes only the unit's current-action
    planes, one for each kind, so the policy simulates by itself what the published program had the engine
    simulate. The first of these planes is called "action_<first kind>"; where none is,
    they are the last.

    `raw` holds an action and the unit's turn (A, M + 1); `evaluate` takes actions (A, M) as well, and then
    lets the units take turns in the order of the batch. Values are those before the first action. Options are
    the fields of `ImpalaConfig`.
    """

    options = ImpalaConfig
    encoder: ImpalaEncoder

    def _build(self) -> None:
        super()._build()
        settings, entity_map = self.settings, self.map
        self.num_kinds = len(self.action.kinds)
        first = f"action_{self.action.kinds[0]}"
        names = entity_map.plane_names
        start = names.index(first) if first in names else entity_map.num_planes - self.num_kinds
        self._action_planes = slice(start, start + self.num_kinds)
        if start < 0:
            raise ValueError(
                f"the last planes encode the current action: expected {self.num_kinds} or more planes, one"
                f" for each kind of {self.name!r}, got {entity_map.num_planes}"
            )
        self.encoder = ImpalaEncoder(
            entity_map.num_planes, entity_map.height, entity_map.width, settings.channels, settings.hidden
        )
        self.actor = scaled(nn.Linear(settings.hidden, entity_map.num_cells + self.action.num_choices), 0.01)
        self.critic = scaled(nn.Linear(settings.hidden, 1), 1.0)

    def _draw(
        self, seen: MapEntities, mask: ActionMask, actors: NDArray[np.int64], rng: np.random.Generator | None
    ) -> tuple[Drawn, Tensor]:
        grid = self._grid(seen)
        encoded = self._encode(grid)
        values = self.critic(encoded).squeeze(1)
        actor_at = np.full((len(seen.rows), self.map.num_cells), -1, np.int64)
        actor_at[seen.steps[actors], seen.cells[actors]] = np.arange(len(actors))
        drawn = np.empty((len(actors), len(self.action.sizes) + 1), np.int64)
        log_probs = np.empty(len(actors), np.float32)
        acting = np.flatnonzero(mask.actors.lengths)
        turn = 0
        while len(acting):
            steps = as_tensor(acting, grid)
            encoded = self._encode(grid[steps]) if turn else encoded[steps]
            of_cell, of_action = self._split(self.actor(encoded))
            chosen, log_prob = _pick(of_cell, actor_at[acting] >= 0, rng)
            actor = actor_at[acting, chosen]
            allowed = RaggedArray.unchecked(mask.mask.values[actor], np.arange(len(actor) + 1))
            actions, more, _ = self.distribution.draw(of_action, allowed, rng)
            drawn[actor, :-1], drawn[actor, -1] = actions, turn
            log_probs[actor] = log_prob + more
            grid[steps, as_tensor(chosen, grid)] = self.planes_ordered(seen, actors[actor], actions)
            actor_at[acting, chosen] = -1
            turn += 1
            acting = acting[mask.actors.lengths[acting] > turn]
        return Drawn(drawn[:, :-1].copy(), log_probs, drawn), values

    def _evaluate(
        self, seen: MapEntities, mask: ActionMask, actors: NDArray[np.int64], chosen: RaggedArray
    ) -> tuple[Tensor, Tensor, Tensor]:
        actions, ranks = self._turns(chosen)
        turns = _Turns.of(chosen.offsets, seen.cells[actors], ranks)
        grid = self._grid(seen)
        # The first actor gets the map as it is; the maps of the others follow those of the steps.
        later = np.flatnonzero(ranks)
        place = turns.steps.copy()
        place[later] = len(grid) + np.arange(len(later))
        one, other = turns.before()
        maps = grid[as_tensor(turns.steps[later], grid)]
        changed = as_tensor(place[one] - len(grid), grid), as_tensor(turns.cells[other], grid)
        maps[changed] = self.planes_ordered(seen, actors[other], actions.values[other])
        encoded = self._encode(torch.cat([grid, maps]))
        of_cell, of_action = self._split(self.actor(encoded.index_select(0, as_tensor(place, grid))))
        forbidden = as_tensor(~turns.waiting(self.map.num_cells), grid)
        unit = torch.log_softmax(of_cell.masked_fill(forbidden, FORBIDDEN), 1)
        log_probs, entropies = self.distribution.evaluate(of_action, mask.mask, actions)
        log_probs = log_probs + unit.gather(1, as_tensor(turns.cells, grid)[:, None]).squeeze(1)
        values = self.critic(encoded[: len(grid)]).squeeze(1)
        return log_probs, entropies - (unit.exp() * unit).sum(1), values

    def _split(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the cells (n, H · W) and of the action (n, C), contiguous, as kernels take them."""
        of_cell, of_action = logits.split([self.map.num_cells, self.action.num_choices], 1)
        return of_cell.contiguous(), of_action.contiguous()

    def planes_ordered(self, seen: MapEntities, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Tensor:
        """The planes (n, P) of entities with the actions `chosen` (n, M)."""
        planes = seen.planes[rows]
        planes[:, self._action_planes] = chosen[:, :1] == np.arange(self.num_kinds)
        return as_tensor(planes, self.actor.weight, self.actor.weight.dtype)

    def _turns(self, chosen: RaggedArray) -> tuple[RaggedArray, NDArray[np.int64]]:
        """The actions (A, M) and the turns (A,) of `chosen`.

        Raises:
            ValueError: they are neither, or the turns of a step are not 0, 1, 2 and so on, each once.
        """
        inside = chosen.item_indices()
        width = len(self.action.sizes)
        if chosen.inner_shape == (width,):
            return chosen, inside
        if chosen.inner_shape != (width + 1,):
            raise ValueError(
                f"action {self.name!r}: expected items of {width} integers, or {width + 1} with the unit's"
                f" turn, got shape {chosen.inner_shape}"
            )
        ranks = chosen.values[:, width]
        order = np.lexsort((ranks, chosen.sequence_indices()))
        wrong = ranks[order] != inside
        if wrong.any():
            step = int(chosen.sequence_indices()[order][wrong.argmax()])
            turns = sorted(chosen[step][:, width].tolist())
            raise ValueError(
                f"action {self.name!r}: step {step}: the units' turns: expected each number from 0 to"
                f" {len(turns) - 1} once, got {turns}"
            )
        return chosen.with_values(chosen.values[:, :width].copy()), ranks

    def _cost(self, entities: float, actors: float) -> dict[str, float]:
        passes = max(actors, 1.0)
        shape = (self.map.num_planes, self.map.height, self.map.width)
        return {
            "encoder": passes * convolution_cost(self.encoder, shape),
            "actor": actors * self.settings.hidden * self.actor.out_features,
            "critic": self.settings.hidden,
        }


def _pick(
    logits: Tensor, allowed: NDArray[np.bool_], rng: np.random.Generator | None
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """An allowed column (n,) of each row of logits and its log-probability (n,); each row allows one."""
    draws = None if rng is None else rng.random(len(allowed))
    choices, log_probs = draw_choices(logits.cpu().double().numpy(), allowed, draws)
    return choices, log_probs.astype(np.float32)
