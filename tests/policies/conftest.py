"""Random batches, and a float64 network that walks over steps and entities one by one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import (
    ActionMask,
    Categorical,
    Continuous,
    EntityActionSpace,
    EntityBatch,
    EntitySpace,
    GlobalCategorical,
    GlobalContinuous,
    SelectEntity,
    sample_actions,
)
from entitize.ragged import RaggedArray
from torch import distributions
from torch.nn import functional

FEATURES = {
    "Player": ("x", "y", "cos", "sin", "angle", "health"),
    "Enemy": ("y", "x", "angle", "cos", "sin", "kind"),
    "Food": ("x", "y"),
    "Wall": (),
    "Mood": ("joy",),
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_space() -> Callable[..., EntitySpace]:
    def make(
        entities: dict[str, tuple[str, ...]] = FEATURES,
        global_features: tuple[str, ...] = ("time", "score"),
        hidden: bool = False,
        global_action: bool = True,
        continuous: bool = True,
    ) -> EntitySpace:
        actions: dict[str, Any] = {
            "move": Categorical(["up", "down", "left", "right"]),
            "fire": SelectEntity(),
        }
        if global_action:
            actions["mode"] = GlobalCategorical(3)
        if continuous:
            actions["steer"] = Continuous([-1.0, 2.0], [1.0, 7.0])
        if continuous and global_action:
            actions["speed"] = GlobalContinuous(-3.0, 0.5)
        return EntitySpace(entities, EntityActionSpace(actions), global_features, hidden)

    return make


def random_actions(
    space: EntitySpace, counts: np.ndarray, rng: np.random.Generator, may_act: Any
) -> dict[str, Any]:
    """Random actors, actees and masks among the entities that `may_act` (per step a bool array)."""
    result = {}
    action: Any
    for name, action in space.actions.spaces.items():
        actors, actees, masks = [], [], []
        for b, count in enumerate(counts):
            candidates = np.flatnonzero(may_act[b])
            acting = rng.permutation(candidates)[: rng.integers(0, len(candidates) + 1)]
            if isinstance(action, SelectEntity):
                targets = rng.permutation(candidates)
                targets = targets[: rng.integers(1, len(targets) + 1)] if len(targets) else targets
                mask = rng.random((len(acting), len(targets))) < 0.6
                if len(targets):
                    mask[np.arange(len(acting)), rng.integers(0, len(targets), len(acting))] = True
                actees.append(targets)
                masks.append(mask.reshape(-1))
            else:
                if action.is_global:
                    acting = np.full(rng.integers(0, 2), -1)
                if isinstance(action, Continuous):
                    actors.append(acting)
                    masks.append(np.zeros((len(acting), 0), bool))
                    continue
                mask = rng.random((len(acting), action.num_choices)) < 0.6
                mask[np.arange(len(acting)), rng.integers(0, action.num_choices, len(acting))] = True
                masks.append(mask)
            actors.append(acting)
            assert count >= len(candidates)
        inner = () if isinstance(action, SelectEntity) else (getattr(action, "num_choices", 0),)
        result[name] = ActionMask(
            RaggedArray.from_arrays(actors, dtype=np.int64, inner_shape=()),
            RaggedArray.from_arrays(masks, dtype=bool, inner_shape=inner),
            RaggedArray.from_arrays(actees, dtype=np.int64, inner_shape=()) if actees else None,
        )
    return result


@pytest.fixture
def random_batch() -> Callable[..., EntityBatch]:
    """Steps with 0 to `most` entities of each type but one Player (none in empty steps) and random actors."""

    def make(
        space: EntitySpace, steps: int = 6, most: int = 3, seed: int = 0, empty: bool = True
    ) -> EntityBatch:
        rng = np.random.default_rng(seed)
        lengths = {name: rng.integers(0, most + 1, steps) for name in space.entities}
        if "Player" in lengths:
            lengths["Player"][:] = 1
        if empty:
            for length in lengths.values():
                length[steps // 2] = 0
        counts = np.sum(list(lengths.values()), axis=0, dtype=np.int64) + np.zeros(steps, np.int64)
        entities = {
            name: RaggedArray.from_lengths(
                (rng.standard_normal((length.sum(), len(space.entities[name]))) * 2 + 1).astype(np.float32),
                length,
            )
            for name, length in lengths.items()
        }
        visible = {}
        may_act = [np.ones(count, bool) for count in counts]
        if space.hidden:
            visible = {n: rows.with_values(rng.random(rows.num_items) < 0.7) for n, rows in entities.items()}
            may_act = [np.concatenate([v[b] for v in visible.values()]) for b in range(steps)]
        globals_ = rng.standard_normal((steps, len(space.global_features))).astype(np.float32)
        return EntityBatch(entities, globals_, random_actions(space, counts, rng, may_act), visible)

    return make


@pytest.fixture
def make_net() -> Callable[..., RogueNet]:
    """A network whose parameters are all random and whose statistics have seen `batch`.

    `path`: "fused", "torch", or "float64" (torch with attention over groups of steps, without kernels).
    """

    def make(
        space: EntitySpace, batch: EntityBatch | None = None, seed: int = 0, path: str = "", **options: Any
    ) -> RogueNet:
        torch.manual_seed(seed)
        if path:
            options["engine"] = "fused" if path == "fused" else "torch"
        net = RogueNet(space, space.actions, **options)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
        if path == "float64":
            net.double()
        if batch is not None:
            net.update_normalization(batch)
        return net

    return make


@pytest.fixture
def legal_actions() -> Callable[..., dict[str, RaggedArray]]:
    def draw(space: EntitySpace, batch: EntityBatch, seed: int = 0) -> dict[str, RaggedArray]:
        return sample_actions(space.actions, batch, np.random.default_rng(seed))

    return draw


# -- the slow network ----------------------------------------------------------------------------------------


class SlowNet:
    """What `RogueNet` computes, in float64 and with loops; `parameters` are leaves of its own."""

    def __init__(self, net: RogueNet) -> None:
        self.net, self.settings = net, net.settings
        self.parameters = {n: p.detach().double().requires_grad_() for n, p in net.named_parameters()}
        self.buffers = {n: b.double() for n, b in net.state_dict().items() if n not in self.parameters}

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ self.parameters[f"{name}.weight"].T + self.parameters[f"{name}.bias"]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred**2).mean(-1, keepdim=True)
        scaled = centred / (variance + 1e-5).sqrt()
        return scaled * self.parameters[f"{name}.weight"] + self.parameters[f"{name}.bias"]

    # Entities of one step: lists of (type, features by name, visible).
    def entities(self, batch: EntityBatch, step: int) -> list[tuple[str, dict[str, float], bool]]:
        space = self.net.observation_space
        found = []
        for name, rows in batch.entities.items():
            flags = batch.visible[name][step] if name in batch.visible else np.ones(len(rows[step]), bool)
            for values, flag in zip(rows[step], flags, strict=True):
                features = dict(zip(space.entities[name], map(float, values), strict=True))
                found.append((name, features, bool(flag)))
        if self.settings.translation:
            self.translate(found)
        if self.settings.fourier:
            for _, features, _ in found:
                self.add_waves(features)
        extra = dict(zip(space.global_features, map(float, batch.globals[step]), strict=True))
        if self.settings.global_features == "concat":
            for _, features, _ in found:
                features.update(extra)
        acts = any(action.is_global for action in space.actions.spaces.values())
        if acts or (extra and self.settings.global_features == "entity"):
            found.append(("__global__", extra, True))
        return found

    def translate(self, found: list[tuple[str, dict[str, float], bool]]) -> None:
        config: Any = self.settings.translation
        origin, c, s = [0.0] * len(config.position), 1.0, 0.0
        for name, features, visible in found:
            if name == config.reference and visible:
                origin = [features[f] for f in config.position]
                if config.rotation_angle:
                    c, s = (
                        math.cos(features[config.rotation_angle]),
                        math.sin(features[config.rotation_angle]),
                    )
                if config.rotation_vector:
                    c, s = (features[f] for f in config.rotation_vector)
                    c, s = c / math.hypot(c, s), s / math.hypot(c, s)
        for name, features, _ in found:
            if name != config.reference and all(f in features for f in config.position):
                moved = [features[f] - o for f, o in zip(config.position, origin, strict=True)]
                if config.rotation_angle or config.rotation_vector:
                    moved = [c * moved[0] + s * moved[1], c * moved[1] - s * moved[0]]
                features.update(zip(config.position, moved, strict=True))
                if config.add_distance:
                    features["distance"] = math.sqrt(sum(m * m for m in moved))

    def add_waves(self, features: dict[str, float]) -> None:
        config: Any = self.settings.fourier
        for feature in [name for name in config.features if name in features]:
            for wavelength in config.wavelengths:
                angle = 2 * math.pi * features[feature] / wavelength
                features[f"{feature} {wavelength} sine"] = math.sin(angle)
                features[f"{feature} {wavelength} cosine"] = math.cos(angle)

    def embed(self, prefix: str, name: str, features: dict[str, float]) -> torch.Tensor:
        if not features:
            return self.parameters[f"{prefix}.embedding.types.{name}.vector"][0]
        x = torch.tensor(list(features.values()), dtype=torch.float64)
        mean, squares = (self.buffers[f"normalization.{name}.{part}"] for part in ("mean", "squares_sum"))
        count = self.buffers[f"normalization.{name}.count"]
        if count > 1:
            deviation = (squares / (count - 1)).sqrt()
            x = (x - mean) / torch.where(deviation > 1e-9, deviation, 1.0)
        x = x.clamp(-5, 5)
        x = torch.relu(self.linear(x, f"{prefix}.embedding.types.{name}.linear"))
        return self.norm(x, f"{prefix}.embedding.types.{name}.norm")

    def encode(
        self, prefix: str, config: Any, found: list[tuple[str, dict[str, float], bool]]
    ) -> torch.Tensor:
        rows = [self.embed(prefix, name, features) for name, features, _ in found]
        if not rows:
            return torch.zeros(0, config.d_model, dtype=torch.float64)
        x = torch.stack(rows)
        for layer in range(config.n_layer):
            block = f"{prefix}.backbone.blocks.{layer}"
            y = self.norm(x, f"{block}.ln1")
            mixed = self.pool if config.pooling else self.attend
            x = x + mixed(y, f"{block}.attn", prefix, config, found)
            hidden = functional.gelu(self.linear(self.norm(x, f"{block}.ln2"), f"{block}.mlp.0"))
            x = x + self.linear(hidden, f"{block}.mlp.2")
        return x

    def pool(self, x: torch.Tensor, name: str, prefix: str, config: Any, found: Any) -> torch.Tensor:
        x = self.linear(x, f"{name}.prepool")
        parts = [x.mean(0)] if "mean" in config.pooling else []
        parts += [x.max(0).values] if "max" in config.pooling else []
        return self.linear(torch.cat(parts), f"{name}.proj").expand(len(x), -1)

    def attend(self, x: torch.Tensor, name: str, prefix: str, config: Any, found: Any) -> torch.Tensor:
        n, width = len(x), config.d_model // config.n_head
        q, k, v = self.linear(x, f"{name}.qkv").split(config.d_model, 1)
        out = []
        for head in range(config.n_head):
            part = slice(head * width, (head + 1) * width)
            for i in range(n):
                keys, values = k[:, part], v[:, part]
                if config.relative_position:
                    pairs = [
                        self.relative(prefix, config.relative_position, found[i], o, x)
                        for o in enumerate(found)
                    ]
                    keys = torch.stack([key + more for key, (more, _) in zip(keys, pairs, strict=True)])
                    values = torch.stack(
                        [value + more for value, (_, more) in zip(values, pairs, strict=True)]
                    )
                out.append(torch.softmax(keys @ q[i, part] / math.sqrt(width), 0) @ values)
        joined = torch.stack(out).view(config.n_head, n, width).transpose(0, 1).reshape(n, -1)
        return self.linear(joined, f"{name}.proj")

    def relative(self, prefix: str, config: Any, one: Any, numbered: tuple[int, Any], x: torch.Tensor) -> Any:
        """Key and value that `one` has for another entity, whose row of `x` is given with it."""
        place = f"{prefix}.backbone.relpos_encoding"
        row, other = numbered
        for name, features, _ in (one, other):
            if name in config.exclude or any(f not in features for f in config.position):
                return 0.0, 0.0
        offset = [one[1][f] - other[1][f] for f in config.position]
        kinds = list(self.net.inputs.features)
        kind = kinds.index(other[0])
        table, values = self.parameters[f"{place}.keys"], self.parameters[f"{place}.values"]
        key: Any = 0.0
        value: Any = 0.0
        for bucket, weight in self.buckets(config, offset, one[1]):
            key = key + weight * table[bucket]
            value = value + weight * values[bucket + (kind * len(table) if config.per_entity_values else 0)]
        seen = torch.tensor([*offset, math.hypot(*offset)], dtype=torch.float64)
        if config.key_projection or config.value_projection:
            norm = {p: self.buffers[f"{place}.offset_norm.{p}"] for p in ("count", "mean", "squares_sum")}
            seen = (seen - norm["mean"]) / (norm["squares_sum"] / (norm["count"] - 1)).sqrt()
            seen = seen.clamp(-5, 5)
        which = kind if config.per_entity_projections else 0
        if config.key_projection:
            table, bias = self.parameters[f"{place}.key_weight"], self.parameters[f"{place}.key_bias"]
            key = key + seen @ table[which] + bias[which]
        if config.value_projection:
            table, bias = self.parameters[f"{place}.value_weight"], self.parameters[f"{place}.value_bias"]
            value = value + seen @ table[which] + bias[which]
        if config.value_gate:
            gate = self.linear(x[row], f"{place}.value_gate_proj")
            gates: dict[str, Any] = {"relu": torch.relu, "gelu": functional.gelu, "sigmoid": torch.sigmoid}
            value = value * gates.get(config.value_gate, lambda g: g)(gate)
        return key, value

    def buckets(self, config: Any, offset: list[float], looking: dict[str, float]) -> list[tuple[int, float]]:
        """Buckets and their weights."""
        if not config.radial and not config.distance:
            bucket, stride = 0, 1
            for o, extent in zip(offset, config.extent, strict=True):
                bucket += stride * (round(min(max(o / config.scale, -extent), extent)) + extent)
                stride *= 2 * extent + 1
            return [(bucket, 1.0)]
        angles = distances = [(0, 1.0)]
        if config.radial:
            heading = looking.get(config.rotation_angle, 0.0) if config.rotation_angle else 0.0
            if config.rotation_vector and all(f in looking for f in config.rotation_vector):
                heading = math.atan2(*(looking[f] for f in reversed(config.rotation_vector)))
            turn = (math.atan2(offset[1], offset[0]) - heading) / (2 * math.pi) % 1.0 * config.extent[0]
            low = math.floor(turn)
            angles = [(low % config.extent[0], 1.0)]
            if config.interpolate:
                angles = [
                    (low % config.extent[0], 1 - turn + low),
                    ((low + 1) % config.extent[0], turn - low),
                ]
        if config.distance:
            last = config.extent[-1] - 1
            far = min(math.hypot(*offset) / config.scale, last)
            low = math.floor(far)
            distances = [(low, 1.0)]
            if config.interpolate:
                distances = [(low, 1 - far + low), (min(low + 1, last), far - low)]
        stride = config.extent[0] if config.radial else 1
        return [(a + stride * d, v * w) for a, v in angles for d, w in distances]

    def __call__(self, batch: EntityBatch, actions: dict[str, RaggedArray]) -> tuple[Any, Any, torch.Tensor]:
        """Log-probabilities and entropies per action, and values."""
        log_probs: dict[str, list[torch.Tensor]] = {name: [] for name in self.net.action_space}
        entropies: dict[str, list[torch.Tensor]] = {name: [] for name in self.net.action_space}
        values = []
        value_prefix = "value_net" if self.settings.separate_value_net else "policy_net"
        for step in range(len(batch)):
            found = self.entities(batch, step)
            seen = self.encode(value_prefix, self.settings.for_value(), found)
            mean = seen.mean(0) if found else torch.zeros(seen.shape[1], dtype=torch.float64)
            values.append(self.linear(mean, "value_head.proj")[0])
            shown = [i for i, (_, _, flag) in enumerate(found) if flag]
            x = self.encode("policy_net", self.settings, [found[i] for i in shown])
            for name, action in self.net.action_space.items():
                if isinstance(action, Continuous):
                    found_rows = [
                        x[-1] if a == -1 else x[shown.index(a)] for a in batch.actions[name].actors[step]
                    ]
                    for row, u in zip(found_rows, actions[name][step], strict=True):
                        log_prob, entropy = self.numbers(name, row, torch.from_numpy(u).double())
                        log_probs[name].append(log_prob)
                        entropies[name].append(entropy)
                    continue
                logits, taken = self.logits(name, batch.actions[name], step, x, shown, actions[name][step])
                for row, chosen in zip(logits, taken, strict=True):
                    p = torch.log_softmax(row, 0)
                    log_probs[name].append(p[chosen])
                    entropies[name].append(-(p.exp() * p).sum())
        empty = torch.zeros(0, dtype=torch.float64)
        return (
            {n: torch.stack(p) if p else empty for n, p in log_probs.items()},
            {n: torch.stack(e) if e else empty for n, e in entropies.items()},
            torch.stack(values) if values else empty,
        )

    def numbers(self, name: str, row: Any, u: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probability of the action that was made of `u` (K,), and entropy, by torch.distributions."""
        head, action = f"action_heads.{name}", self.net.action_space[name]
        low, high = (torch.from_numpy(bound).double() for bound in (action.low, action.high))
        mean, log_std = self.linear(row, f"{head}.proj"), self.parameters[f"{head}.log_std"]
        scaled = distributions.AffineTransform((low + high) / 2, (high - low) / 2, cache_size=1)
        tanh = [distributions.TanhTransform(cache_size=1)] if self.settings.squash else []
        normal = distributions.Normal(mean, log_std.exp())
        made = distributions.TransformedDistribution(normal, [*tanh, scaled])
        taken = u
        for transform in made.transforms:
            taken = transform(taken)
        entropy = normal.entropy().sum() + scaled.scale.log().sum()
        if self.settings.squash:
            noise = torch.linspace(-9, 9, 2001, dtype=torch.float64)
            places = mean[:, None] + log_std.exp()[:, None] * noise
            slopes = tanh[0].log_abs_det_jacobian(places, torch.tanh(places))
            entropy = entropy + (slopes * torch.softmax(-0.5 * noise**2, 0)).sum()
        return made.log_prob(taken).sum(), entropy

    def logits(self, name: str, mask: Any, step: int, x: Any, shown: list[int], taken: Any) -> Any:
        """For each actor the logits of what is allowed, and where its choice is among them."""
        head, action = f"action_heads.{name}", self.net.action_space[name]
        rows, chosen = [], []
        for a, actor in enumerate(mask.actors[step]):
            if isinstance(action, SelectEntity):
                actees = mask.actees[step]
                allowed = actees[mask.mask[step].reshape(len(mask.actors[step]), len(actees))[a]]
                query = self.linear(x[shown.index(actor)], f"{head}.query_proj")
                keys = torch.stack([self.linear(x[shown.index(e)], f"{head}.key_proj") for e in allowed])
                rows.append(keys @ query / math.sqrt(len(query)))
            else:
                row = x[-1] if actor == -1 else x[shown.index(actor)]
                allowed = np.flatnonzero(mask.mask[step][a])
                rows.append(self.linear(row, f"{head}.proj")[torch.from_numpy(allowed)])
            chosen.append(int(np.flatnonzero(allowed == taken[a])[0]))
        return rows, chosen


@pytest.fixture
def slow_net() -> type[SlowNet]:
    return SlowNet
