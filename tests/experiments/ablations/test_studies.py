"""The studies: what their files say can be trained, and every variant is another thing than the baseline."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from entitize import RogueNet
from entitize.adapters.procgen import GAMES
from entitize.envs import EntityBatch, EntityVectorEnv, sample_actions
from entitize.experiments import (
    TrainConfig,
    UserError,
    find_config,
    held_out,
    make_environments,
    make_policy,
    read_config,
    train,
)
from entitize.experiments.ablations import Study, ablation_config, find_study, read_studies
from entitize.policies import RogueNetConfig
from entitize.trainers import PPO
from torch import nn

from facts import raises

Run = Callable[..., tuple[int, str, str]]

VARIANTS = [(name, variant) for name, study in read_studies().items() for variant in study.variants]
GAMES_OF = [(name, game) for name, study in read_studies().items() for game in study.games]
#: Networks that the fused kernels don't compute.
IN_TORCH = {("pooling", variant) for variant in ("mean", "max", "mean_and_max")}


def small(config: TrainConfig) -> TrainConfig:
    """The same with two updates of 4 lanes and 2 steps."""
    ppo = replace(config.ppo, total_timesteps=16, num_steps=2, minibatch_size=8, update_epochs=1)
    ppo = replace(ppo, microbatch_size=None, checkpoint_interval=16)
    evaluation = replace(config.eval, episodes=2, num_envs=2)
    return replace(config, env=replace(config.env, num_envs=4), ppo=ppo, eval=evaluation)


def look(venv: EntityVectorEnv, steps: int = 30) -> EntityBatch:
    """What there is to see after some random steps."""
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=0)
    for _ in range(steps):
        batch = venv.step(sample_actions(venv.single_action_space, batch, rng))[0]
    return batch


def shown(study: str, game: str, variant: str) -> EntityBatch:
    with make_environments(small(ablation_config(study, game, variant)).env) as venv:
        return look(venv)


@pytest.mark.parametrize(("study", "variant"), VARIANTS)
def test_every_variant_learns(study: str, variant: str) -> None:
    config = small(ablation_config(study, find_study(study).games[0], variant))
    with make_environments(config.env) as venv:
        policy = make_policy(config, venv)
        assert isinstance(policy, RogueNet)
        assert policy.engine.name == ("torch" if (study, variant) in IN_TORCH else "fused")
        before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
        trainer = PPO(policy, venv, config.ppo)
        trainer.train()
        assert trainer.step == 16
        after = policy.state_dict()
    assert any(not np.array_equal(after[name], tensor) for name, tensor in before.items())
    assert all(np.isfinite(tensor.numpy()).all() for tensor in after.values())


def same(a: EntityBatch, b: EntityBatch) -> bool:
    return a.entities.keys() == b.entities.keys() and all(
        np.array_equal(rows.values, b.entities[name].values)
        and np.array_equal(rows.offsets, b.entities[name].offsets)
        for name, rows in a.entities.items()
    )


@pytest.mark.parametrize(("study", "game"), GAMES_OF)
def test_no_two_variants_are_the_same_thing(study: str, game: str) -> None:
    configs = [ablation_config(study, game, variant) for variant in find_study(study).variants]
    batches: list[EntityBatch] = []
    for config in configs:
        with make_environments(small(config).env) as venv:
            make_policy(config, venv)
            batches.append(look(venv))
    for i, first in enumerate(configs):
        for j in range(i):
            second = configs[j]
            assert (first.net, first.ppo) != (second.net, second.ppo) or not same(batches[i], batches[j])


def test_only_what_a_variant_says_differs_from_the_configuration() -> None:
    plain = read_config(TrainConfig, find_config("procgen_reference"))
    env = replace(plain.env, id="Procgen/ninja", kwargs={**plain.env.kwargs, "window": 3})
    assert ablation_config("map_window", "ninja", "window_15") == replace(plain, env=env)
    config = ablation_config("pooling", "bigfish", "mean_and_max")
    assert config == replace(plain, net=replace(plain.net, pooling="meanmax"))
    assert ablation_config("snakes", "MultiSnake", "one").env.id == "MultiSnake"


# -- what the variants claim ---------------------------------------------------------------------------------


def cells(batch: EntityBatch, size: int, kinds: int) -> dict[tuple[int, int], int]:
    """The first step's tiles by cell, but for space, from where chunks of `size` say they are."""
    found = {}
    for row in batch.entities["Tiles"].values[: batch.entities["Tiles"].lengths[0]]:
        left, bottom = np.round(row[:2] * 10 - size / 2).astype(int)
        hot = row[4:].reshape(size, size, kinds)
        for y, x, kind in zip(*np.nonzero(hot), strict=True):
            if kind != 0:
                found[int(left + x), int(bottom + y)] = int(kind)
    return found


def test_chunks_of_all_sizes_show_the_same_cells() -> None:
    kinds = len(GAMES["coinrun"].tiles)
    by_size = {
        size: cells(shown("chunk_size", "coinrun", f"chunk_{size}"), size, kinds) for size in (1, 3, 5, 25)
    }
    assert len(by_size[5]) > 50
    assert by_size[1] == by_size[5] == by_size[25]
    assert by_size[3].items() >= by_size[5].items()  # 27 x 27


def test_a_larger_window_shows_more_of_the_same_map() -> None:
    kinds = len(GAMES["climber"].tiles)
    seen = [
        cells(shown("map_window", "climber", variant), 5, kinds).items()
        for variant in ("window_15", "window_25", "whole_map")
    ]
    assert seen[0] < seen[1] < seen[2]


@pytest.mark.parametrize("game", find_study("relative_attention").games)
def test_relative_only_does_not_see_where_the_origin_is(game: str) -> None:
    config = small(ablation_config("relative_attention", game, "relative_only"))
    with make_environments(config.env) as venv:
        batch = look(venv)
        plain = make_policy(replace(config, net=replace(config.net, translation=None)), venv)
        relative = make_policy(config, venv)
    for policy in (plain, relative):
        assert isinstance(policy, RogueNet)
        nn.init.normal_(policy.value_head.proj.weight)  # it starts at zero
    moved = {}
    for name, rows in batch.entities.items():
        features = list(plain.observation_space.entities[name])
        values = rows.values.copy()
        values[:, [features.index("x"), features.index("y")]] += (4.0, -2.0)
        moved[name] = rows.with_values(values)
    elsewhere = replace(batch, entities=moved)
    np.testing.assert_allclose(relative.value(elsewhere), relative.value(batch), atol=1e-5)
    assert (np.abs(plain.value(elsewhere) - plain.value(batch)) > 1e-4).all()


@pytest.mark.parametrize(
    "study", [name for name, study in read_studies().items() if "eval.vary" in study.common]
)
def test_a_generalisation_is_judged_on_what_training_had_and_on_more(study: str) -> None:
    chosen = find_study(study)
    for variant in chosen.variants:
        config = ablation_config(study, chosen.games[0], variant)
        ((name, values),) = config.eval.vary.items()
        assert config.env.kwargs[name] in values and config.env.kwargs[name] != values[-1]
        with make_environments(small(config).env) as venv:
            policy = make_policy(config, venv)
        for value in values:
            env, _ = held_out(config.env, replace(config.eval, kwargs={name: value}, num_envs=2))
            with make_environments(env) as venv:
                policy.adapt_to(venv.single_observation_space)
                batch, _ = venv.reset(seed=0)
                assert len(policy.act(batch, np.random.default_rng(0)).values) == 2


def test_one_command_tells_the_return_by_count(entitize: Run, tmp_path: Path) -> None:
    config = small(ablation_config("robots", "MineSweeper", "two"))
    train(config, tmp_path / "two" / "0")
    code, out, err = entitize("eval", tmp_path / "two" / "0")
    assert (code, err) == (0, "")
    assert re.findall(r"│ two/0 +│ +(\d) │", out) == ["1", "2", "3", "4", "6", "8"]


# -- what can't be meant -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("chunk_sise", "maze", "chunk_5"), "unknown study 'chunk_sise'; did you mean 'chunk_size'?"),
        (
            ("chunk_size", "maize", "chunk_5"),
            "unknown game of chunk_size 'maize'; did you mean 'maze'?",
        ),
        (
            ("chunk_size", "bigfish", "chunk_5"),
            "unknown game of chunk_size 'bigfish'; known: 'coinrun', 'ma",
        ),
        (("robots", "MultiSnake", "two"), "unknown game of robots 'MultiSnake'; known: 'MineSweeper'"),
        (
            ("width", "maze", "d16"),
            "unknown variant of width 'd16'; did you mean 'd_16'?",
        ),
    ],
)
def test_unknown_names_are_told_with_the_nearest(words: tuple[str, str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        ablation_config(*words)
    assert str(error.value).startswith(message)


def test_games_that_may_be_asked_for() -> None:
    with_tiles = {name for name, game in GAMES.items() if game.tiles}
    assert set(find_study("chunk_size").allowed_games()) == with_tiles
    assert find_study("chunk_size").allowed_games()[:3] == ["coinrun", "maze", "heist"]
    assert set(find_study("width").allowed_games()) == set(GAMES)


def test_a_baseline_is_one_of_the_variants() -> None:
    with raises(ValueError, "baseline 'c'", "a, b"):
        Study("Which?", "procgen", ("maze",), "c", {"a": {}, "b": {"net.d_model": 8}})


def test_the_documentation_lists_what_there_is() -> None:
    page = Path(__file__).parents[3] / "docs" / "experiments.md"
    text = page.read_text()
    questions = re.findall(r"^\| `(\w+)` \| [A-Z][^|]+ \|$", text, re.MULTILINE)
    assert questions == list(read_studies())
    rows = re.findall(r"^\| `(\w+)` \| (`.+`) \| ([\w, ]+) \|$", text, re.MULTILINE)
    assert rows == [
        (
            name,
            ", ".join(f"`{v}`" for v in sorted(study.variants, key=lambda v: v != study.baseline)),
            ", ".join(study.games),
        )
        for name, study in read_studies().items()
    ]


def test_a_configuration_stays_as_it_was() -> None:
    first = ablation_config("relative_positions", "maze", "translation")
    again = ablation_config("relative_positions", "maze", "translation")
    assert first == again
    assert first.net.translation is not again.net.translation
    assert ablation_config("relative_positions", "maze", "absolute").net == RogueNetConfig()
