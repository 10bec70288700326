from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import EntityVectorEnv
from entitize.experiments import EnvConfig, TrainConfig, UserError, make_policy, read_run_config
from entitize.policies import RogueNetConfig
from entitize.trainers import PPOConfig

from facts import mentions, raises

Run = Callable[..., tuple[int, str, str]]

#: Parameters that the papers tell, of the map that they tell them of.
PUBLISHED = {
    "TransformerNet": 661_854,
    "GridNet": 838_191,
    "ImpalaGridNet": 5_266_113,
    "UnitActionNet": 220_175,
}
PLANES = EnvConfig("MicroRTS/basesWorkers16x16", 1, {"features": "planes", "opponents": "passiveAI"})
#: A published network that trains in a second.
TINY = (
    *("--config", "microrts_transformer", "--env.id", "MicroRTS/basesWorkers8x8", "--env.num-envs", "3"),
    *("--env.kwargs", "opponents={coacAI: 2, randomAI: 1}", "max_steps=30", "--ppo.num-steps", "8"),
    *("--baseline", "n_layer=1", "d_hidden=8", "--eval.episodes", "4", "--eval.num-envs", "2"),
)


@pytest.fixture(scope="module")
def venv() -> Iterator[EntityVectorEnv]:
    with ez.make_vec(PLANES.id, 1, **PLANES.kwargs) as venv:
        yield venv


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of a small TransformerNet; tests read it and leave it as it is."""
    from entitize.cli import main

    run = tmp_path_factory.mktemp("runs") / "transformer"
    assert main(["train", *TINY, "--run", str(run), "--ppo.total-timesteps", "48"]) == 0
    return run


@pytest.mark.parametrize("network", PUBLISHED)
def test_a_published_network_is_made_for_the_map(network: Any, venv: EntityVectorEnv) -> None:
    policy = make_policy(TrainConfig(PLANES, network, baseline={"composite": "all"}), venv)
    assert type(policy).__name__ == network
    assert sum(p.numel() for p in policy.parameters()) == PUBLISHED[network]
    assert policy.config["composite"] == "all"
    assert (policy.config["height"], policy.config["width"]) == (16, 16)


def test_the_weights_follow_from_the_seed(venv: EntityVectorEnv) -> None:
    config = TrainConfig(PLANES, "UnitActionNet", baseline={"hidden": 8, "channels": [4]})
    first, second = (make_policy(config, venv).state_dict() for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)


def test_a_network_of_maps_is_as_large_as_the_largest_of_several() -> None:
    maps = ["basesWorkers8x8", "NoWhereToRun9x8", "EightBasesWorkers16x12"]
    env = EnvConfig(PLANES.id, 3, {**PLANES.kwargs, "maps": maps})
    with ez.make_vec(env.id, env.num_envs, **env.kwargs) as venv:
        config = TrainConfig(env, "UnitActionNet", baseline={"hidden": 8, "channels": [4]})
        network = make_policy(config, venv)
        assert isinstance(network, ez.baselines.UnitActionNet)
        assert (network.map.height, network.map.width) == (12, 16)
        batch = venv.reset(seed=1)[0]
        venv.step(network.act(batch, np.random.default_rng(1)).actions)


def test_all_components_count_where_the_configuration_says_so(venv: EntityVectorEnv) -> None:
    batch, _ = venv.reset(seed=0)
    small = {"n_layer": 1, "d_hidden": 8}
    every, used = (
        make_policy(TrainConfig(PLANES, "TransformerNet", baseline={**small, "composite": composite}), venv)
        for composite in ("all", "used")
    )
    orders = every.act(batch, np.random.default_rng(0)).actions["order"]
    orders.values[:, 0] = 0  # whatever its other components, an order to wait is only that
    of_every = every.evaluate(batch, {"order": orders}).log_probs["order"]
    of_used = used.evaluate(batch, {"order": orders}).log_probs["order"]
    assert len(of_every) == 2
    assert (of_every < of_used - 0.5).all()


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({"network": "GridNt"}, ("network", "'GridNt'", "'GridNet'")),
        ({"baseline": {"composite": "all"}}, ("baseline", "composite", "RogueNet")),
        (
            {"network": "GridNet", "net": RogueNetConfig(d_model=8, n_layer=1)},
            ("net", "d_model, n_layer", "GridNet", "baseline"),
        ),
        (
            {"network": "TransformerNet", "baseline": {"dropot": 0.1}},
            ("unknown key 'baseline.dropot'", "'baseline.dropout'"),
        ),
        (
            {"network": "TransformerNet", "baseline": {"dropout": "much"}},
            ("baseline.dropout", "float", "'much'"),
        ),
        (
            {"network": "GridNet", "baseline": {"dropout": 0.1}},
            ("unknown key 'baseline.dropout'", "'height', "),
        ),
        (
            {"network": "UnitActionNet", "baseline": {"composite": "some"}},
            ("baseline.composite", "'used', 'all'", "'some'"),
        ),
        ({"network": "TransformerNet", "baseline": {"n_layer": 0}}, ("baseline", "n_layer", 0)),
    ],
)
def test_options_that_do_not_go_together_are_told(fields: dict[str, Any], facts: tuple[object, ...]) -> None:
    with raises(ValueError, *facts):
        TrainConfig(**fields)


@pytest.mark.parametrize(
    ("env", "baseline", "facts"),
    [
        (PLANES, {"height": 8}, ("baseline", "height", 8, "basesWorkers16x16", 16)),
        (PLANES, {"n_head": 3}, ("TransformerNet", "n_head", 3, 91)),
        (
            EnvConfig("Unknown"),
            {"width": 9},
            ("TransformerNet", "size", "--baseline he"),
        ),
    ],
)
def test_a_network_that_does_not_fit_is_told(
    venv: EntityVectorEnv, env: EnvConfig, baseline: dict[str, Any], facts: tuple[object, ...]
) -> None:
    with raises(UserError, *facts):
        make_policy(TrainConfig(env, "TransformerNet", baseline=baseline), venv)


def test_a_size_that_is_told_wins_over_that_of_the_map(venv: EntityVectorEnv) -> None:
    config = TrainConfig(PLANES, "GridNet", baseline={"height": 32})
    assert make_policy(config, venv).config["height"] == 32


def test_a_network_that_reads_planes_asks_for_them() -> None:
    env = EnvConfig("MicroRTS/basesWorkers8x8", 1)
    with ez.make_vec(env.id, 1) as venv, raises(UserError, "features=planes"):
        make_policy(TrainConfig(env, "GridNet"), venv)


# -- the commands --------------------------------------------------------------------------------------------


def test_options_given_as_flags_add_to_those_of_the_file(trained: Path) -> None:
    config = read_run_config(trained)
    assert config.network == "TransformerNet"
    assert config.baseline == {"composite": "all", "n_layer": 1, "d_hidden": 8}
    assert config.env.kwargs["features"] == "planes"


def test_a_run_goes_on_with_its_network_only(entitize: Run, trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    code, _, err = entitize("train", "--resume", run, "--ppo.total-timesteps", 72)
    assert (code, err) == (0, "")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [24, 48, 72]
    code, _, err = entitize("train", "--resume", run, "--baseline", "d_hidden=16")
    assert code == 2
    assert "is of another network" in err


def test_a_run_is_judged_shown_and_told_about(entitize: Run, trained: Path, tmp_path: Path) -> None:
    code, out, err = entitize("eval", trained, "--random")
    assert (code, err) == (0, "")
    assert "transformer" in out and "random policy" in out
    code, out, err = entitize("play", trained, "--out", tmp_path / "a.gif", "--max-steps", 4)
    assert (code, err) == (0, "")
    assert "a.gif: 4 steps" in out
    code, out, err = entitize("info", "--run", trained)
    assert (code, err) == (0, "")
    assert re.search(r"total +\d\d,\d\d\d\n.*multiply-adds per step with [\d.]+ Own", out, re.DOTALL)


def test_info_tells_what_a_published_network_costs(entitize: Run) -> None:
    words = ("info", "MicroRTS/basesWorkers8x8", "--kwargs", "features=planes", "--network")
    code, out, err = entitize(*words, "GridNet")
    assert (code, err) == (0, "")
    assert re.search(r"total +838,191\n.*decoder +2,322,432\n", out, re.DOTALL)
    code, _, err = entitize(*words, "GridNet", "--net.d-model", 32)
    assert code == 2
    assert re.search(mentions("net", "d_model", "GridNet"), err)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--run", "x", "--network", "GridNet"], ("a run", "--network")),
        (["--network", "GridNet"], ("environment", "network")),
    ],
)
def test_info_does_not_pass_over_options(entitize: Run, words: list[str], facts: tuple[str, ...]) -> None:
    code, _, err = entitize("info", *words)
    assert code == 2
    assert re.search(mentions(*facts), err)


def test_a_seed_may_have_128_bits() -> None:  # as those of `numpy.random.SeedSequence`
    config = TrainConfig(ppo=PPOConfig(seed=2**128 - 1))
    with ez.make_vec("MineSweeper", 1) as venv:
        first, second = (make_policy(config, venv).state_dict() for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
