"""A toy policy and a toy vector environment: several actions, masks, absent actors, two kinds of end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from entitize.envs import (
    ActionMask,
    Categorical,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    EntityVectorEnv,
    GlobalCategorical,
    SelectEntity,
    validate_actions,
)
from entitize.policies import ActResult, Evaluation
from entitize.ragged import RaggedArray
from torch import Tensor, nn

ACTIONS = EntityActionSpace(
    {"Paint": Categorical(["red", "green", "blue"]), "Shout": GlobalCategorical(2), "Push": SelectEntity()}
)
SPACE = EntitySpace({"Robot": ["hue", "x"], "Crate": ["weight"]}, ACTIONS, ["time"])


class ToyPolicy(nn.Module):
    """Every probability and value is a linear function of features, so that a test can redo it by hand."""

    mean: Tensor
    count: Tensor

    def __init__(self, scale: float = 0.1, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.observation_space, self.action_space = SPACE, ACTIONS
        self.config: dict[str, Any] = {"scale": scale}
        generator = torch.Generator().manual_seed(0)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(scale * torch.randn(*shape, generator=generator, dtype=dtype))

        self.paint = weight(2, 3)  # robot's features -> logits
        self.shout = weight(1, 2)  # globals -> logits
        self.push = weight(2)  # robot's features -> how much it likes heavy crates
        self.robot_value = weight(2)
        self.crate_value = weight(1)
        self.bias = weight(1)
        self.register_buffer("mean", torch.zeros(2, dtype=dtype))
        self.register_buffer("count", torch.zeros(1, dtype=dtype))
        self.normalizations = 0

    def _logits(self, batch: EntityBatch) -> dict[str, Tensor]:
        """Per action the masked logits (A, C) of all actors; -inf where a step has fewer than C crates."""
        dtype = self.paint.dtype
        robots, crates = batch.entities["Robot"], batch.entities["Crate"]
        hues = torch.as_tensor(robots.values, dtype=dtype) - self.mean
        steps = {name: mask.actors.sequence_indices() for name, mask in batch.actions.items()}

        def acting(name: str) -> Tensor:
            return hues[robots.offsets[steps[name]] + batch.actions[name].actors.values]

        time = torch.as_tensor(batch.globals, dtype=dtype)
        raw = {"Paint": acting("Paint") @ self.paint, "Shout": time[steps["Shout"]] @ self.shout}
        logits = {
            name: rows.masked_fill(~torch.as_tensor(batch.actions[name].mask.values), -1e9)
            for name, rows in raw.items()
        }
        push, step = batch.actions["Push"], steps["Push"]
        assert push.actees is not None
        counts = push.actees.lengths[step][:, None]
        column = np.arange(counts.max(initial=0))
        there = column < counts
        places = np.where(there, push.actees.offsets[step][:, None] + column, 0)
        numbers = push.actees.values[places] - robots.lengths[step][:, None] if places.size else places
        weights = torch.as_tensor(crates.values, dtype=dtype)[:, 0]
        heavy = weights[np.where(there, crates.offsets[step][:, None] + numbers, 0)]
        allowed = np.zeros(there.shape, bool)
        allowed[there] = push.mask.values
        liking = (acting("Push") @ self.push)[:, None] * heavy
        liking = liking.masked_fill(torch.as_tensor(~allowed), -1e9)
        return {**logits, "Push": liking.masked_fill(torch.as_tensor(~there), -torch.inf)}

    def _values(self, batch: EntityBatch) -> Tensor:
        values = self.bias.expand(len(batch))
        weights = {"Robot": self.robot_value, "Crate": self.crate_value}
        for name, weight in weights.items():
            rows = torch.as_tensor(batch.entities[name].values, dtype=self.paint.dtype)
            rows = rows - self.mean if name == "Robot" else rows
            values = values.index_add(
                0, torch.as_tensor(batch.entities[name].sequence_indices()), rows @ weight
            )
        return values

    @torch.no_grad()
    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        chosen: dict[str, list[int]] = {name: [] for name in ACTIONS}
        log_probs: dict[str, list[float]] = {name: [] for name in ACTIONS}
        rows = {name: torch.log_softmax(r, -1).double().numpy() for name, r in self._logits(batch).items()}
        actors = {name: batch.actions[name].actors for name in ACTIONS}
        for step in range(len(batch)):
            for name, offsets in ((name, actors[name].offsets) for name in ACTIONS):
                for row in rows[name][offsets[step] : offsets[step + 1]]:
                    draw = rng.random()
                    choice = int(row.argmax()) if deterministic else int((np.exp(row).cumsum() < draw).sum())
                    choice = min(choice, int(np.flatnonzero(row > -1e8)[-1]))
                    actees = batch.actions[name].actees
                    chosen[name].append(choice if actees is None else int(actees[step][choice]))
                    log_probs[name].append(float(row[choice]))
        return ActResult(
            {name: actors[name].with_values(np.array(chosen[name], np.int64)) for name in ACTIONS},
            {name: actors[name].with_values(np.array(log_probs[name], np.float32)) for name in ACTIONS},
            self._values(batch).float().numpy(),
        )

    @torch.no_grad()
    def value(self, batch: EntityBatch) -> np.ndarray:
        return self._values(batch).float().numpy()

    def evaluate(self, batch: EntityBatch, actions: Mapping[str, RaggedArray]) -> Evaluation:
        log_probs, entropies = {}, {}
        for name, logits in self._logits(batch).items():
            rows = torch.log_softmax(logits, -1)
            choices = actions[name].values
            if name == "Push":  # the actees are the crates, which come behind the robots
                choices = choices - batch.entities["Robot"].lengths[actions[name].sequence_indices()]
            log_probs[name] = rows.gather(1, torch.as_tensor(choices)[:, None])[:, 0]
            entropies[name] = -(rows.exp() * rows.masked_fill(rows.isinf(), 0)).sum(-1)
        return Evaluation(log_probs, entropies, self._values(batch))

    @torch.no_grad()
    def update_normalization(self, batch: EntityBatch) -> None:
        self.normalizations += 1
        robots = torch.as_tensor(batch.entities["Robot"].values, dtype=self.mean.dtype)
        self.count += len(robots)
        self.mean += (robots - self.mean).sum(0) / self.count


def toy_batch(rng: np.random.Generator, num_steps: int) -> EntityBatch:
    """`num_steps` random observations: 1-3 robots, 0-3 crates; nobody pushes without crates."""
    robots, crates = rng.integers(1, 4, num_steps), rng.integers(0, 4, num_steps)

    def indices(per_step: list[np.ndarray]) -> RaggedArray:
        return RaggedArray.from_arrays(per_step, dtype=np.int64, inner_shape=())

    paint_mask = rng.random((robots.sum(), 3)) < 0.7
    paint_mask[np.arange(len(paint_mask)), rng.integers(0, 3, len(paint_mask))] = True
    shouts = indices([np.full(rng.integers(0, 2), -1) for _ in range(num_steps)])
    pushers = indices([np.arange(r if c else 0) for r, c in zip(robots, crates, strict=True)])
    actees = indices([r + np.arange(c) for r, c in zip(robots, crates, strict=True)])
    push_mask = RaggedArray.from_arrays([np.ones(r * c, bool) for r, c in zip(robots, crates, strict=True)])
    return EntityBatch(
        {
            "Robot": RaggedArray.from_lengths(rng.random((robots.sum(), 2), np.float32), robots),
            "Crate": RaggedArray.from_lengths(rng.random((crates.sum(), 1), np.float32), crates),
        },
        rng.random((num_steps, 1), np.float32),
        {
            "Paint": ActionMask(
                indices([np.arange(r) for r in robots]), RaggedArray.from_lengths(paint_mask, robots)
            ),
            "Shout": ActionMask(shouts, RaggedArray(np.ones((shouts.num_items, 2), bool), shouts.offsets)),
            "Push": ActionMask(pushers, push_mask, actees),
        },
    )


class ToyVectorEnv(EntityVectorEnv):
    """Rewards dark robots painted red and bright ones painted green.

    Lane e's episodes last e + 2 steps; those of odd lanes are truncated. Everything is a function of the
    seed, of how many steps were taken and of how long the episodes run.
    """

    single_observation_space, single_action_space = SPACE, ACTIONS

    def __init__(self, num_envs: int = 4) -> None:
        self.num_envs = num_envs
        self.metadata = {**EntityVectorEnv.metadata}
        self.seeds: list[int | None] = []
        self._seed = self._clock = 0
        self._elapsed = np.zeros(num_envs, np.int64)

    def _show(self) -> EntityBatch:
        self._shown = toy_batch(np.random.default_rng([self._seed, self._clock]), self.num_envs)
        return self._shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[EntityBatch, dict[str, Any]]:
        self.seeds.append(seed)
        self._seed, self._clock = seed or 0, 0
        self._elapsed[:] = 0
        return self._show(), {}

    def step(self, actions: Any) -> Any:
        self._clock += 1
        self._elapsed += 1
        ended = self._elapsed >= np.arange(self.num_envs) + 2
        odd = np.arange(self.num_envs) % 2 == 1
        self._elapsed[ended] = 0
        hues = [robots[:, 0] for robots in self._shown.entities["Robot"]]
        painted = zip(actions["Paint"], hues, strict=True)
        rewards = np.array([np.mean(paint == (hue > 0.5)) for paint, hue in painted], np.float32)
        info: dict[str, Any] = {}
        if ended.any():
            final = toy_batch(np.random.default_rng([self._seed, self._clock, 1]), self.num_envs)
            info = {"final_obs": final.gather(np.flatnonzero(ended)), "_final_obs": ended}
        return self._show(), rewards, ended & ~odd, ended & odd, info


class StatefulToyVectorEnv(ToyVectorEnv):
    """The same, able to save where it is."""

    def get_state(self) -> dict[str, np.ndarray]:
        return {"counters": np.array([self._seed, self._clock]), "elapsed": self._elapsed.copy()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> EntityBatch:
        self._seed, self._clock = map(int, state["counters"])
        self._elapsed[:] = state["elapsed"]
        return self._show()


class WaitingVectorEnv(StatefulToyVectorEnv):
    """The same robots; each lane is idle at 4 of 10 steps, at random, or as often as `share` says.

    Rewards and ends come while lanes are idle as well. Lanes that terminate then give no final observation.
    """

    def __init__(self, num_envs: int = 4, share: float = 0.4) -> None:
        super().__init__(num_envs)
        self.share = share

    def _show(self) -> EntityBatch:
        batch = super()._show()
        self.idle = np.random.default_rng([self._seed, self._clock, 2]).random(self.num_envs) < self.share

        def emptied(array: RaggedArray) -> RaggedArray:
            return RaggedArray.from_lengths(
                array.values[~array.broadcast(self.idle)], np.where(self.idle, 0, array.lengths)
            )

        actions = {
            name: ActionMask(
                emptied(m.actors), emptied(m.mask), None if m.actees is None else emptied(m.actees)
            )
            for name, m in batch.actions.items()
        }
        return EntityBatch(batch.entities, batch.globals, actions)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[EntityBatch, dict[str, Any]]:
        return super().reset(seed=seed)[0], {"inactive": self.idle}

    def step(self, actions: Any) -> Any:
        idle = self.idle
        assert not any(order.lengths[idle].any() for order in actions.values())
        self._clock += 1
        self._elapsed += 1
        ended = self._elapsed >= np.arange(self.num_envs) + 2
        odd = np.arange(self.num_envs) % 2 == 1
        self._elapsed[ended] = 0
        painted = np.array([float(paint.sum()) for paint in actions["Paint"]])
        rewards = np.random.default_rng([self._seed, self._clock, 3]).normal(painted, 1).astype(np.float32)
        final = toy_batch(np.random.default_rng([self._seed, self._clock, 1]), self.num_envs)
        given = ended & (odd | ~idle)
        batch = self._show()
        info = {"inactive": self.idle, "final_obs": final.gather(np.flatnonzero(given)), "_final_obs": given}
        return batch, rewards, ended & ~odd, ended & odd, info


class DuelsVectorEnv(WaitingVectorEnv):
    """Lanes 2g and 2g + 1 meet in game g, which lasts g + 2 steps; odd games are truncated.

    What one lane paints the other pays for. `told`: infos tell the outcome.
    """

    def __init__(self, num_envs: int = 8, share: float = 0.0, told: bool = False) -> None:
        super().__init__(num_envs, share)
        self.lane_games = np.arange(num_envs) // 2
        self.told = told
        self.received: Any = None  # the last actions

    def _show(self) -> EntityBatch:
        self.batch = super()._show()
        return self.batch

    def step(self, actions: Any) -> Any:
        actions = validate_actions(SPACE, self.batch, actions)
        self.received = actions
        self._clock += 1
        self._elapsed += 1
        games = np.arange(self.num_envs) // 2
        ended = self._elapsed >= games + 2
        odd = games % 2 == 1
        self._elapsed[ended] = 0
        painted = np.array([float(paint.sum()) for paint in actions["Paint"]], np.float32).reshape(-1, 2)
        rewards = (painted - painted[:, ::-1]).reshape(-1)
        final = toy_batch(np.random.default_rng([self._seed, self._clock, 1]), self.num_envs)
        info: dict[str, Any] = {"final_obs": final.gather(np.flatnonzero(ended)), "_final_obs": ended}
        if self.told:
            words = np.where(rewards > 0, "win", np.where(rewards < 0, "loss", "draw")).astype(object)
            info |= {"outcome": np.where(ended, words, None), "_outcome": ended}
        batch = self._show()
        return batch, rewards, ended & ~odd, ended & odd, {**info, "inactive": self.idle}


@pytest.fixture
def duels() -> type[DuelsVectorEnv]:
    return DuelsVectorEnv


@pytest.fixture
def waiting_venv() -> type[WaitingVectorEnv]:
    return WaitingVectorEnv


@pytest.fixture
def toy_policy() -> type[ToyPolicy]:
    return ToyPolicy


@pytest.fixture
def toy_venv() -> type[ToyVectorEnv]:
    return ToyVectorEnv


@pytest.fixture
def stateful_toy_venv() -> type[StatefulToyVectorEnv]:
    return StatefulToyVectorEnv


@pytest.fixture
def make_toy_batch() -> Any:
    return toy_batch
