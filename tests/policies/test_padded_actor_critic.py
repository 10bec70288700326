"""`PaddedActorCritic` against the ragged network and against the masks of the environment."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
import torch
from entitize import RogueNet
from entitize.envs import EntityActionSpace, EntityBatch, EntitySpace, MultiCategorical
from torch.distributions import Categorical

from facts import raises
from nets import tensors

SIZES: dict[str, Any] = {"d_model": 8, "n_layer": 2, "n_head": 2, "composite": "all"}
MOST = 3  # entities per type in random batches


def layout_of(space: EntitySpace, most: int = MOST) -> ez.batch.PaddedLayout:
    return ez.batch.PaddedLayout(space, dict.fromkeys(space.entities, most))


@pytest.mark.parametrize("most", [MOST, MOST + 2])
@pytest.mark.parametrize("global_action", [True, False])
def test_log_probabilities_entropies_and_values_are_the_ragged_networks(
    most: int,
    global_action: bool,
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
    legal_actions: Callable[..., Any],
) -> None:
    space = make_space(continuous=False, global_action=global_action)
    for seed in range(4):
        batch = random_batch(space, most=MOST, seed=seed)
        net, layout = make_net(space, batch, seed, **SIZES), layout_of(space, most)
        padded = ez.PaddedActorCritic(layout.observation_space, **SIZES)
        padded.load_rogue_net(net)
        logits, values = padded.eval()(tensors(layout, batch))
        assert logits.shape == (len(batch), sum(padded.num_choices))

        actions = legal_actions(space, batch, seed)
        chosen = layout.pad_actions(batch, actions)
        flat = np.concatenate([chosen[name].reshape(len(batch), -1) for name in sorted(chosen)], 1)
        parts = [Categorical(logits=part) for part in logits.split(padded.num_choices, 1)]
        log_probs = sum(p.log_prob(torch.from_numpy(c)) for p, c in zip(parts, flat.T, strict=True))
        expected = net.evaluate(batch, actions)
        for mine, theirs in (
            (log_probs, expected.log_probs),
            (sum(part.entropy() for part in parts), expected.entropies),
        ):
            total = torch.zeros(len(batch))
            for name, items in theirs.items():
                steps = torch.from_numpy(batch.actions[name].actors.sequence_indices())
                total = total.index_add(0, steps, items)
            torch.testing.assert_close(mine, total, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(values.detach().numpy(), net.value(batch), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masked_choices_have_probability_0_under_torch_autocast(
    dtype: torch.dtype, make_space: Callable[..., EntitySpace], random_batch: Callable[..., EntityBatch]
) -> None:
    space = make_space(continuous=False)
    layout = layout_of(space)
    padded, observations = ez.PaddedActorCritic(layout.observation_space, **SIZES), random_batch(space)
    arrays = tensors(layout, observations)
    exact, allowed = padded(arrays)[0], padded.action_masks(arrays)
    with torch.autocast("cpu", dtype=dtype):
        logits, _ = padded(arrays)
    assert logits.dtype == dtype
    torch.testing.assert_close(logits[allowed].float(), exact[allowed], rtol=0.1, atol=0.1)
    probabilities = [part.softmax(1) for part in logits.split(padded.num_choices, 1)]
    assert not torch.cat(probabilities, 1)[~allowed].any()
    logits[allowed].sum().backward()
    assert all(p.grad.isfinite().all() for p in padded.parameters() if p.grad is not None)


class Builders(ez.EntityEnv):
    """Workers that build by a conditional multi-discrete action, and move."""

    def __init__(self) -> None:
        parts = {"kind": ["wait", "build"], "what": ["hut", "wall", "well"]}
        build = MultiCategorical(parts, uses={"build": ["what"]})
        self.action_space = EntityActionSpace({"order": build, "go": ez.Categorical(["left", "right"])})
        self.observation_space = EntitySpace({"Worker": ["x"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        count = int(self.np_random.integers(0, 4))
        mask = self.np_random.random((count, 5)) < 0.5
        mask[:, 0], mask[:, 1] = True, mask[:, 2:].any(1)
        return ez.Observation(
            {"Worker": np.zeros((count, 1))},
            actions={
                "order": ez.actions.MultiCategoricalMask(actor_types=["Worker"], mask=mask),
                "go": ez.actions.CategoricalMask(actor_types=["Worker"]),
            },
        )

    def _step(self, actions: dict[str, Any]) -> Any:
        return self._reset({}), 0.0, False, False, {}


def test_masks_are_those_of_the_environment() -> None:
    mines = ez.make("MineSweeper")
    for env in (
        ez.to_gymnasium(mines, "padded", maxima=6, flat_actions=True),
        ez.to_gymnasium(Builders(), "padded", maxima=4, flat_actions=True),
    ):
        net = ez.PaddedActorCritic(env.observation_space, d_model=8, n_head=2)
        space: Any = env.action_space
        assert net.num_choices == space.nvec.tolist()
        torch.manual_seed(1)
        observation, _ = env.reset(seed=1)
        for _ in range(20):
            batch = {name: torch.as_tensor(array)[None] for name, array in observation.items()}
            masks = net.action_masks(batch)
            assert masks[0].tolist() == env.action_masks().tolist()
            logits, _ = net(batch)
            probabilities = [part[0].softmax(0) for part in logits.split(net.num_choices, 1)]
            assert not torch.cat(probabilities)[~masks[0]].any()
            action = np.array([int(Categorical(probs=p).sample()) for p in probabilities])
            observation, _, terminated, truncated, _ = env.step(action)  # illegal="error"
            if terminated or truncated:
                observation, _ = env.reset()


def test_names_of_arrays_with_another_separator_change_nothing() -> None:
    """Data sets in HDF5, and so Minari's, hold arrays under such names."""
    made: Any = []
    for separator in "/.":
        env = gymnasium.make(
            "entitize/Padded-v0", env_id="MineSweeper", maxima=6, flat_actions=True, separator=separator
        )
        torch.manual_seed(0)
        net = ez.PaddedActorCritic(env.observation_space, d_model=8, n_head=2)
        seen = {name: torch.as_tensor(array)[None] for name, array in env.reset(seed=3)[0].items()}
        made.append((*net(seen), net.action_masks(seen)))
        assert copy.deepcopy(env.observation_space) == env.observation_space
        assert all(separator in name for name in seen if name != "globals")
        del seen[next(iter(seen))]
        with pytest.raises(ValueError, match="expected"):
            net(seen)
    for one, other in zip(*made, strict=True):
        assert torch.equal(one, other)


def test_no_steps_give_no_logits_and_wrong_arrays_are_named() -> None:
    env = ez.to_gymnasium(ez.make("MineSweeper"), "padded", maxima=6, flat_actions=True)
    net = ez.PaddedActorCritic(env.observation_space, d_model=8, n_head=2)
    observation = {name: torch.as_tensor(array)[None] for name, array in env.reset(seed=1)[0].items()}
    logits, values = net({name: array[:0] for name, array in observation.items()})
    assert logits.shape == (0, sum(net.num_choices)) and values.shape == (0,)
    key = "actions/Move/mask"
    with raises(ValueError, repr(key)):
        net({name: array for name, array in observation.items() if name != key})
    with raises(ValueError, repr(key), "(1, 18, 5)", "(1, 3, 5)"):
        net({**observation, key: observation[key][:, :3]})
    with raises(ValueError, "'entities/Mine'", "(B, 6, 2)", "(6, 2)"):
        net({name: array[0] for name, array in observation.items()})
    with raises(TypeError, "'entities/Mine'", "ndarray"):
        net({name: array.numpy() for name, array in observation.items()})


def test_continuous_actions_and_other_networks_are_refused(
    make_space: Callable[..., EntitySpace], make_net: Callable[..., RogueNet]
) -> None:
    with raises(ValueError, "'steer'", "continuous"):
        ez.PaddedActorCritic(layout_of(make_space()).observation_space, **SIZES)
    net = ez.PaddedActorCritic(layout_of(make_space(continuous=False)).observation_space, **SIZES)
    with raises(ValueError, "actions", "mode"):
        net.load_rogue_net(make_net(make_space(continuous=False, global_action=False), **SIZES))
