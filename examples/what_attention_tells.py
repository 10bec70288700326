"""Does attention say what matters? Remove one entity at a time and compare the probabilities of the actions.

    python examples/what_attention_tells.py bigfish experiments/results/procgen_25m/runs/bigfish/roguenet/0

At every fourth step of play each entity but the player and tiles is removed from the observation once. Its
*influence* is the total variation between the probabilities with it and without it: 0 is none, 1 is another
choice for certain. The table has the mean influence of the entity with the largest weight of attention, of
the nearest one, of a random one, and of the one with the largest influence; 95 % intervals are over lanes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import entitize as ez
import numpy as np
import torch
from entitize.envs import concatenate_batches
from entitize.ragged import RaggedArray


@dataclass
class Other:
    """An entity at one step."""

    features: dict[str, float]
    weights: np.ndarray  # (layers, heads), of the actor, which is entity 0
    influence: float = 0.0

    @property
    def distance(self) -> float:
        return float(np.hypot(self.features["relative_x"], self.features["relative_y"]))


def without(batch: ez.EntityBatch, kind: str, place: int) -> ez.EntityBatch:
    """A batch of one step without one entity, which must come behind the actors."""
    rows = np.delete(batch.entities[kind].values, place, 0)
    return ez.EntityBatch(
        {**batch.entities, kind: RaggedArray.from_arrays([rows])}, batch.globals, batch.actions, batch.visible
    )


def probabilities(policy: ez.RogueNet, steps: list[ez.EntityBatch]) -> np.ndarray:
    """The probabilities of all choices (steps, C) at batches of one step each, all of them at once."""
    choices = policy.action_space["act"].num_choices
    batch = concatenate_batches(steps).gather(np.repeat(np.arange(len(steps)), choices))
    actions = np.tile(np.arange(choices), len(steps))
    with torch.no_grad():
        chosen = {"act": RaggedArray(actions, np.arange(len(actions) + 1))}
        return policy.evaluate(batch, chosen).log_probs["act"].exp().reshape(len(steps), choices).numpy()


def influences(policy: ez.RogueNet, batch: ez.EntityBatch) -> list[Other]:
    """The entities of a step that say where they lie as seen from the player, but tiles."""
    explained = policy.explain(batch)
    weights = np.stack(explained.attention)[:, :, 0]  # (layers, heads, n)
    found, others, index = [], [batch], 0
    for kind, features in policy.observation_space.entities.items():
        for place, values in enumerate(batch.entities[kind][0]):
            if "relative_x" in features and kind != "Tiles":
                others.append(without(batch, kind, place))
                found.append(Other(dict(zip(features, values.tolist(), strict=True)), weights[:, :, index]))
            index += 1
    before, *after = probabilities(policy, others)
    for entity, row in zip(found, after, strict=True):
        entity.influence = float(np.abs(row - before).sum() / 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("game")
    parser.add_argument("run")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    policy, rng = ez.load_policy(options.run), np.random.default_rng(options.seed)
    means: dict[str, list[float]] = defaultdict(list)  # by lane
    everything: list[Other] = []
    with ez.make_vec(f"Procgen/{options.game}", num_envs=options.lanes) as venv:
        batch, _ = venv.reset(seed=options.seed)
        by_lane: list[list[list[Other]]] = [[] for _ in range(options.lanes)]
        for step in range(options.steps):
            if step % 4 == 3:
                for lane, steps in enumerate(by_lane):
                    found = influences(policy, batch.gather([lane]))
                    everything += found
                    steps += [found] if len(found) > 2 else []
            batch, *_ = venv.step(policy.act(batch, rng).actions)

    for steps in filter(None, by_lane):
        chosen = {
            "most attended": [max(s, key=lambda one: one.weights.mean()) for s in steps],
            "nearest": [min(s, key=lambda one: one.distance) for s in steps],
            "random": [s[rng.integers(len(s))] for s in steps],
            "most influential": [max(s, key=lambda one: one.influence) for s in steps],
        }
        for name, entities in chosen.items():
            means[name].append(float(np.mean([one.influence for one in entities])))
    print(sum(map(len, by_lane)), "steps with three entities or more")
    for name, values in means.items():
        print(f"{name:17} {ez.evaluation.bootstrap_interval(values)}")
    if everything and "relative_half_width" in everything[0].features:
        # BigFish: a narrower fish is food, a wider one kills.
        for low, high in ((0.3, 0.6), (0.6, 0.9), (0.9, 1.3)):
            near = [one for one in everything if low <= one.distance < high]
            for word, sign in (("food", -1), ("deadly", 1)):
                group = [one for one in near if sign * one.features["relative_half_width"] > 0]
                heads = np.mean([one.weights for one in group], 0).ravel().astype(float).round(3).tolist()
                print(f"distance {low} to {high}: {len(group)} {word}, weights of the heads {heads}")


if __name__ == "__main__":
    main()
