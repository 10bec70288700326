"""`PaddedRogueNet` against the ragged network, whatever the padding."""

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
from entitize.envs import ActionMask, EntityBatch, EntitySpace, GlobalCategorical, SelectEntity
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from facts import raises
from nets import tensors

SIZES: dict[str, Any] = {"d_model": 8, "n_layer": 2, "n_head": 2}
MOST = 3  # entities per type in random batches
D = SIZES["d_model"]

# The fixtures are functions without state.
same_fixtures = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def layout_of(space: EntitySpace, more: int = 0, **limits: Any) -> ez.batch.PaddedLayout:
    return ez.batch.PaddedLayout(space, dict.fromkeys(space.entities, MOST + more), **limits)


def padded_net(layout: ez.batch.PaddedLayout, net: RogueNet, **options: Any) -> ez.PaddedRogueNet:
    """A network on padded observations with the weights and statistics of `net`, in evaluation mode."""
    twin = ez.PaddedRogueNet(layout.observation_space, **{**net.config, **options})
    twin.load_rogue_net(net)
    return twin.eval()


def places(layout: ez.batch.PaddedLayout) -> dict[str, slice]:
    """Where the features of the step, of its global row, and of actors and actees begin and end."""
    space = layout.space
    acts = any(action.is_global for _, action in space.actions.items())
    sizes = {"mean": 1, "global": int(acts or bool(space.global_features))}
    for name, action in space.actions.items():
        if not action.is_global:
            sizes[f"{name} actors"] = layout.max_actors[name]
        if isinstance(action, SelectEntity):
            sizes[f"{name} actees"] = layout.max_actees[name]
    ends = np.cumsum(list(sizes.values())) * D
    return {
        name: slice(int(end) - size * D, int(end))
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def slot_lists(padded: dict[str, np.ndarray]) -> list[str]:
    return [name for name in padded if name.endswith(("/actors", "/actees"))]


def masked(logits: Tensor, mask: ActionMask, step: int) -> Tensor:
    allowed = torch.from_numpy(mask.mask[step].reshape(logits.shape))
    return torch.log_softmax(logits.masked_fill(~allowed, -1e9), 1)


@same_fixtures
@given(seed=st.integers(0, 1000), hidden=st.booleans(), global_action=st.booleans(), more=st.integers(0, 2))
def test_heads_on_the_features_are_the_ragged_networks(
    seed: int,
    hidden: bool,
    global_action: bool,
    more: int,
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
    legal_actions: Callable[..., Any],
) -> None:
    space = make_space(hidden=hidden, global_action=global_action)
    batch = random_batch(space, most=MOST, seed=seed)
    net, layout = make_net(space, batch, seed, **SIZES), layout_of(space, more)
    features, where = padded_net(layout, net)(tensors(layout, batch)), places(layout)
    assert features.shape == (len(batch), max(part.stop for part in where.values()))
    actions = legal_actions(space, batch, seed)
    expected = {
        name: array.split(batch.actions[name].actors.lengths.tolist())
        for name, array in net.evaluate(batch, actions).log_probs.items()
    }
    for step in range(len(batch)):
        mine: dict[str, Tensor] = {}
        for name, action in space.actions.items():
            head: Any = net.action_heads[name]
            count = int(batch.actions[name].actors.lengths[step])
            rows = features[step, where["global" if action.is_global else f"{name} actors"]].view(-1, D)
            assert not rows[count:].any() or action.is_global
            rows = rows[:count]
            if isinstance(action, ez.Continuous):
                continue
            chosen = torch.from_numpy(actions[name][step])
            if isinstance(action, SelectEntity):
                actees = batch.actions[name].actees
                assert actees is not None
                others = features[step, where["fire actees"]].view(-1, D)[: actees.lengths[step]]
                logits = head.query_proj(rows) @ head.key_proj(others).T / np.sqrt(net.settings.d_qk)
                chosen = torch.tensor([actees[step].tolist().index(int(i)) for i in chosen], dtype=torch.long)
            else:
                logits = head.proj(rows)
            if count:
                mine[name] = masked(logits, batch.actions[name], step).gather(1, chosen[:, None])[:, 0]
        for name, log_probs in mine.items():
            torch.testing.assert_close(log_probs, expected[name][step], atol=1e-5, rtol=1e-5)
    if not hidden:  # the ragged network's values see more
        values = net.value_head.proj(features[:, where["mean"]])[:, 0]
        torch.testing.assert_close(values.detach().numpy(), net.value(batch), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_gradients_are_the_ragged_networks(
    engine: str,
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
    legal_actions: Callable[..., Any],
) -> None:
    space = make_space()
    batch = random_batch(space, most=MOST)
    net, layout = make_net(space, batch, **SIZES, engine=engine), layout_of(space)
    twin = padded_net(layout, net)
    net.evaluate(batch, legal_actions(space, batch)).values.square().sum().backward()
    mean = twin(tensors(layout, batch))[:, places(layout)["mean"]]
    net_head = copy.deepcopy(net.value_head.proj)
    net_head(mean).square().sum().backward()
    theirs = dict(net.policy_net.named_parameters())
    assert sum(parameter.grad is not None for parameter in theirs.values()) > 20
    for name, parameter in twin.encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, theirs[name].grad, atol=1e-5, rtol=1e-4)


@same_fixtures
@given(seed=st.integers(0, 1000))
def test_what_stands_in_the_padding_does_not_matter(
    seed: int,
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
) -> None:
    space = make_space(hidden=True)
    batch = random_batch(space, most=MOST, seed=seed)
    layout, rng = layout_of(space, 1), np.random.default_rng(seed)
    net = padded_net(layout, make_net(space, batch, **SIZES))
    clean = layout.pad(batch)
    dirty = {name: array.copy() for name, array in clean.items()}
    for name in space.entities:
        absent = ~clean[f"presence/{name}"]
        garbage = rng.choice([np.nan, np.inf, -1e30, 7.0], absent.sum()).astype(np.float32)
        dirty[f"entities/{name}"][absent] = garbage[:, None]
        dirty[f"visible/{name}"][absent] = rng.random(absent.sum()) < 0.5
    for slots in slot_lists(clean):
        absent = ~clean[slots.replace("actors", "presence").replace("actees", "actee_presence")]
        dirty[slots][absent] = rng.integers(-5, 99, absent.sum())
    one, other = (net({name: torch.from_numpy(a) for name, a in padded.items()}) for padded in (clean, dirty))
    assert torch.equal(one, other)


def test_holes_between_entities_do_not_matter(
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
) -> None:
    space = make_space()
    batch = random_batch(space, most=MOST)
    layout = layout_of(space, 2)
    net = padded_net(layout, make_net(space, batch, **SIZES))
    padded = layout.pad(batch)
    expected = net({name: torch.from_numpy(array) for name, array in padded.items()})
    moved = {name: array.copy() for name, array in padded.items()}
    for name, first in layout.first_slots.items():
        for part in (f"entities/{name}", f"presence/{name}"):
            moved[part] = np.roll(padded[part], 2, axis=1)  # slots 0 and 1 come from the empty end
        for slots in slot_lists(padded):
            moved[slots] += 2 * ((padded[slots] >= first) & (padded[slots] < first + MOST + 2))
    rolled = net({name: torch.from_numpy(array) for name, array in moved.items()})
    torch.testing.assert_close(rolled, expected)


def test_floats_and_other_maxima_give_the_same(
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
) -> None:
    space = make_space()
    batch = random_batch(space, most=MOST)
    ragged, tight = make_net(space, batch, **SIZES), layout_of(space)
    observations, net = tensors(tight, batch), padded_net(tight, ragged)
    expected = net(observations)
    as_floats = {name: array.double() for name, array in observations.items()}
    torch.testing.assert_close(net(as_floats), expected)
    wide = layout_of(space, 9, max_actors={"move": 40, "fire": 20}, max_actees={"fire": 30})
    twin = padded_net(wide, ragged)
    twin.load_state_dict(net.state_dict())
    features = twin(tensors(wide, batch))
    for name, part in places(tight).items():
        if part.stop > part.start:
            wider = places(wide)[name]
            torch.testing.assert_close(features[:, wider][:, : part.stop - part.start], expected[:, part])


def test_float64_without_kernels_gives_the_same(
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
) -> None:
    space = make_space()
    batch = random_batch(space, most=MOST)
    layout = layout_of(space)
    net = padded_net(layout, make_net(space, batch, **SIZES))
    expected = net(tensors(layout, batch))
    features = copy.deepcopy(net).double()(tensors(layout, batch))
    assert features.dtype == torch.float64
    torch.testing.assert_close(features.float(), expected, atol=1e-5, rtol=1e-5)


def test_steps_without_entities_have_features(make_space: Callable[..., EntitySpace]) -> None:
    bare = make_space(global_features=(), global_action=False)
    layout = layout_of(bare)
    net = ez.PaddedRogueNet(layout.observation_space, slot_rows=False, **SIZES)
    nothing = {
        name: np.zeros((2, *part.shape), part.dtype) for name, part in layout.observation_space.items()
    }
    features = net({name: torch.from_numpy(array) for name, array in nothing.items()})
    assert features.shape == (2, D) and not features.any()
    features.sum().backward()
    only_globals = EntitySpace({}, ez.EntityActionSpace({"act": GlobalCategorical(2)}), ["time"])
    layout = ez.batch.PaddedLayout(only_globals, {})
    net = ez.PaddedRogueNet(layout.observation_space, **SIZES)
    one, other = net({"globals": torch.tensor([[1.0], [2.0]]), "actions/act/presence": torch.ones(2, 1)})
    assert net.features_dim == 2 * D and torch.equal(one[:D], one[D:]) and not torch.equal(one, other)


# -- statistics ---------------------------------------------------------------------------------------------


def test_statistics_begin_with_the_first_observations_and_then_move_between_updates(
    make_space: Callable[..., EntitySpace],
    random_batch: Callable[..., EntityBatch],
    make_net: Callable[..., RogueNet],
) -> None:
    space = make_space()
    batches = [random_batch(space, most=MOST, seed=seed) for seed in range(4)]
    layout, ragged = layout_of(space), make_net(space, batches[0], **SIZES)
    net = ez.PaddedRogueNet(layout.observation_space, **SIZES).eval()
    net.encoder.load_state_dict(ragged.policy_net.state_dict())
    before = net(tensors(layout, batches[0]))
    torch.testing.assert_close(before, padded_net(layout, ragged)(tensors(layout, batches[0])))
    net(tensors(layout, batches[1]))  # acting: nothing moves
    assert torch.equal(net(tensors(layout, batches[0])), before)
    net.train()
    for batch in batches[2:]:
        net(tensors(layout, batch))
        with torch.no_grad():
            assert torch.equal(net(tensors(layout, batches[0])), before)
        ragged.update_normalization(batch)
    net.eval()
    after = net(tensors(layout, batches[0]))
    assert not torch.allclose(after, before)
    torch.testing.assert_close(after, padded_net(layout, ragged)(tensors(layout, batches[0])))
    again = ez.PaddedRogueNet(layout.observation_space, **SIZES).eval()
    again.load_state_dict(net.state_dict())
    assert torch.equal(again(tensors(layout, batches[0])), after)


def test_observations_that_are_not_finite_do_not_enter_the_statistics(
    make_space: Callable[..., EntitySpace], random_batch: Callable[..., EntityBatch]
) -> None:
    space = make_space()
    layout, batch = layout_of(space), random_batch(space, most=MOST)
    net = ez.PaddedRogueNet(layout.observation_space, **SIZES)
    observations = tensors(layout, batch)
    net(observations)
    state = copy.deepcopy(net.state_dict())
    observations["entities/Player"][0, 0, 1] = np.nan
    with raises(ValueError, "Player", "feature 'y'", "NaN"):
        net(observations)
    assert all(torch.equal(array, state[name]) for name, array in net.state_dict().items())


# -- what goes wrong ----------------------------------------------------------------------------------------


def test_other_spaces_are_refused_with_the_environment_to_build(
    make_space: Callable[..., EntitySpace],
) -> None:
    build = "ez.to_gymnasium(env, 'padded', maxima=…, flat_actions=True)"
    cart_pole = ez.wrap(gymnasium.make("CartPole-v1"))
    flat = ez.to_gymnasium(cart_pole, "flat", maxima=1).observation_space
    padded: Any = ez.to_gymnasium(cart_pole, "padded", maxima=1).observation_space
    for space, kind in [
        (flat, "Box of shape (8,)"),
        (spaces.Dict(padded.spaces), "Dict of actions/action/mask, "),
        (make_space(), "EntitySpace of "),
    ]:
        with raises(TypeError, build, kind):
            ez.PaddedRogueNet(space)
    stacked = copy.deepcopy(padded)
    stacked.spaces["presence/Vector"] = spaces.Box(-10, 10, (1,), np.float32)
    with raises(ValueError, "'presence/Vector'", "Box(-10.0, 10.0"):
        ez.PaddedRogueNet(stacked)
    del stacked.spaces["presence/Vector"]
    with raises(ValueError, "'presence/Vector'", "missing"):
        ez.PaddedRogueNet(stacked)


def test_options_that_padding_does_not_go_with_are_refused(make_space: Callable[..., EntitySpace]) -> None:
    space = layout_of(make_space()).observation_space
    with raises(ValueError, "separate_value_net", "share_features_extractor=False"):
        ez.PaddedRogueNet(space, separate_value_net=True)
    relative = {"extent": (2, 2), "position": ("x", "y"), "key_projection": True}
    with raises(ValueError, "key_projection", "value_projection"):
        ez.PaddedRogueNet(space, relative_position=relative)
    with raises(TypeError, "'d_modle'", "'d_model'"):
        ez.PaddedRogueNet(space, d_modle=8)


def test_observations_that_do_not_fit_are_named(
    make_space: Callable[..., EntitySpace], random_batch: Callable[..., EntityBatch]
) -> None:
    space = make_space(hidden=True)
    layout, batch = layout_of(space), random_batch(space, most=MOST)
    net, good = ez.PaddedRogueNet(layout.observation_space, **SIZES), tensors(layout, batch)
    expected = net.eval()(good)
    strange = good["presence/Food"].float() - 0.25
    slots = torch.full_like(good["actions/move/actors"], layout.num_slots - 1)
    nowhere = {**good, "actions/move/actors": slots, "actions/move/presence": torch.ones_like(slots)}
    nowhere["presence/Mood"] = torch.zeros_like(good["presence/Mood"])
    for wrong, facts in [
        ({k: v for k, v in good.items() if k != "presence/Food"}, ["'presence/Food'", "presence/Player"]),
        ({**good, "presence/Food": strange}, ["'presence/Food'", "VecNormalize(norm_obs=False)"]),
        ({**good, "visible/Food": strange}, ["'visible/Food'", 0.75, 0, 1]),
        (nowhere, ["'actions/move/actors'", "slot 14", "step 0"]),
        ({**nowhere, "actions/move/actors": slots + 1}, ["slots", 15]),
        ({**nowhere, "actions/move/actors": slots - 99}, ["slots", 15]),
        (
            tensors(layout_of(space, 1), batch),
            ["'entities/Player'", "(6, 4, 6)", "(6, 3, 6)", "maxima {'Player'"],
        ),
        ({**good, "globals": good["globals"][:, :1]}, ["'globals'", "(6, 1)", "(6, 2)"]),
    ]:
        with raises(ValueError, *facts):
            net(wrong)
        torch.testing.assert_close(net(good), expected)


def test_networks_that_are_others_are_not_taken_over(make_space: Callable[..., EntitySpace]) -> None:
    space, other = make_space(), make_space({"Player": ("y", "x")})
    net = ez.PaddedRogueNet(layout_of(space).observation_space, **SIZES)
    state = copy.deepcopy(net.state_dict())
    with raises(ValueError, "n_head", 4, 2):
        net.load_rogue_net(RogueNet(space, space.actions, **{**SIZES, "n_head": 4}))
    with raises(ValueError, "{'Player': ('y', 'x'), ", "expected {'Player'"):
        net.load_rogue_net(RogueNet(other, other.actions, **SIZES))
    assert all(torch.equal(array, state[name]) for name, array in net.state_dict().items())
