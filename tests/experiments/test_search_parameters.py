"""`--param` and the other flags of `entitize search`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from entitize.cli.search import SearchArguments, search_settings
from entitize.experiments import TrainConfig, UserError, parse
from entitize.experiments.search import SearchSettings, read_parameters, with_values
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from facts import raises

Run = Callable[..., tuple[int, str, str]]


def settings(*words: str, train_flags: tuple[str, ...] = ()) -> SearchSettings:
    flags = ["mine_sweeper", "--out", "x", "--param", "ppo.gamma=0.9..0.99", *words]
    return search_settings(parse(SearchArguments, "search", flags), train_flags)


@pytest.mark.parametrize(
    ("word", "distribution"),
    [
        ("ppo.learning_rate=log:1e-4..3e-2", FloatDistribution(1e-4, 3e-2, log=True)),
        ("ppo.learning-rate=1e-4..3e-2", FloatDistribution(1e-4, 3e-2)),
        ("ppo.num_steps=int:32..256", IntDistribution(32, 256)),
        ("ppo.num_steps=32..256", IntDistribution(32, 256)),  # the setting is an int
        ("ppo.num_steps=log:32..256", IntDistribution(32, 256, log=True)),
        ("env.kwargs.size=log:int:2..8", IntDistribution(2, 8, log=True)),
        ("env.kwargs.speed=-1..1", FloatDistribution(-1, 1)),
        ("net.d_model=16,32,64", CategoricalDistribution([16, 32, 64])),
        ("net.pooling=null,mean,max", CategoricalDistribution([None, "mean", "max"])),
        ("ppo.norm_adv=true,false", CategoricalDistribution([True, False])),
        ("ppo.target_kl=null,0.01,1e-3", CategoricalDistribution([None, 0.01, 1e-3])),
        ("init_from=../a,../b", CategoricalDistribution(["../a", "../b"])),
    ],
)
def test_a_parameter_is_a_range_or_a_list(word: str, distribution: BaseDistribution) -> None:
    (parameter,) = read_parameters([word], TrainConfig())
    assert parameter.name == word.partition("=")[0].replace("-", "_")
    assert parameter.distribution == distribution


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ([], ("--param", "none", "log:LOW..HIGH")),
        (["ppo.gamma"], ("ppo.gamma", "NAME=LOW..HIGH")),
        (["=1..2"], ("=1..2",)),
        (["ppo.gamma="], ("ppo.gamma=",)),
        (["ppo..gamma=1..2"], ("ppo..gamma",)),
        (["ppo.gamma=lin:0..1"], ("lin:0..1", "log:LOW..HIGH")),
        (["ppo.gamma=log:0.5"], ("log:0.5",)),
        (["ppo.gamma=0..x"], ("two numbers", "0..x")),
        (["ppo.gamma=0.."], ("two numbers", "0..")),
        (["ppo.gamma=0...inf"], ("two numbers",)),
        (["ppo.gamma=0.9..0.9"], ("ppo.gamma", "LOW below HIGH", 0.9)),
        (["ppo.gamma=0.9..0.5"], (0.9, 0.5)),
        (["ppo.learning_rate=log:0..1"], ("ppo.learning_rate", "above 0", "logarithmic", 0)),
        (["ppo.num_steps=0.5..3"], ("whole numbers", "0.5..3")),
        (["net.d_model=16,,32"], ("net.d_model", "empty")),
        (["net.d_model=16,16"], ("different", "16,16")),
        (["env.kwargs.x=[1],2"], ("true, false or null",)),
        (["env.kwargs.x=[1,2"], ("true, false or null", "[1,2")),
        (["env.kwargs.x=*a,2"], ("true, false or null", "*a,2")),
        (["ppo.gamma=0..{"], ("two numbers", "0..{")),
        (["ppo.gamma=1,1.0"], ("different", "1,1.0")),
        (["ppo.gamma=0..1", "ppo.gamma=0..0.5"], ("ppo.gamma", "twice")),
        (["ppo.learning_rat=0..1"], ("'ppo.learning_rat'", "'ppo.learning_rate'")),
        (["learning_rate=0..1"], ("'learning_rate'", "'ppo.learning_rate'")),
        (["pp.gamma=0..1"], ("'pp'", "'ppo'")),
        (["ppo.gamma.x=0..1"], ("ppo.gamma",)),
        (["ppo.gamma=0.5..2"], ("gamma", 2.0)),  # the end of the range is not allowed
        (["ppo.microbatch_size=16..64"], ("ppo.microbatch_size", "int")),  # a value between is not whole
        (["net.d_model=16,wide"], ("net.d_model", "'wide'")),
        (["ppo.seed=int:0..9"], ("ppo.seed", "search sets")),
    ],
)
def test_a_wrong_parameter_is_named(words: list[str], facts: tuple[object, ...]) -> None:
    with raises(UserError, *facts):
        read_parameters(words, TrainConfig())


def test_values_change_nothing_else() -> None:
    base = TrainConfig()
    changed = with_values(base, {"ppo.num_steps": 7, "env.kwargs.size": 3})
    assert (changed.ppo.num_steps, changed.env.kwargs) == (7, {"size": 3})
    assert with_values(changed, {"ppo.num_steps": base.ppo.num_steps}).ppo == base.ppo
    assert base.env.kwargs == {}


def test_flags_of_train_steps_and_seeds_go_to_every_run() -> None:
    words = ("--seeds", "2", "--steps", "3k", "--max-minutes", "7")
    found = settings(*words, train_flags=("--env.id", "MultiSnake", "--env.num-envs", "3"))
    jobs = found.jobs(4, {"ppo.gamma": 0.95})
    assert [job.name for job in jobs] == ["MultiSnake/trial_004/0", "MultiSnake/trial_004/1"]
    for seed, job in enumerate(jobs):
        assert (job.config.ppo.seed, job.config.ppo.gamma) == (seed, 0.95)
        assert (job.config.ppo.total_timesteps, job.config.max_minutes) == (3000, 7)
        assert (job.config.env.id, job.config.env.num_envs) == ("MultiSnake", 3)


@pytest.mark.parametrize(
    "words", [("--games", "maze,heist"), ("--param", "env.id=Procgen/maze,Procgen/heist")]
)
def test_a_trial_trains_on_each_of_several_games(words: tuple[str, ...]) -> None:
    found = settings(*words)
    assert found.games == ("Procgen/maze", "Procgen/heist")
    assert [job.name for job in found.jobs(0, {})] == ["maze/trial_000/0", "heist/trial_000/0"]
    assert [job.config.env.id for job in found.jobs(0, {})] == list(found.games)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--games", "maze,MineSweeper"], ("MineSweeper", "Procgen")),
        (["--games", "MineSweeper,MultiSnake"], ("MineSweeper", "Procgen")),
        (["--games", ","], ("--games", "','")),
        (["--trials", "0"], ("--trials", 1, 0)),
        (["--pruner", "medial"], ("medial",)),
        (["--param", "ppo.learning_rat=0..1"], ("'ppo.learning_rate'",)),
        (["--", "--ppo.seed", "3"], ("--ppo.seed", "after --")),
        (["--", "--config", "procgen"], ("--config", "after --")),
        (["--device", "tpu"], ("--device", "tpu")),
    ],
)
def test_a_wrong_flag_is_one_error(
    entitize: Run, tmp_path: Path, words: list[str], facts: tuple[object, ...]
) -> None:
    start = ["search", "mine_sweeper", "--param", "ppo.gamma=0.9..0.99", "--out", str(tmp_path / "s")]
    code, _, err = entitize(*start, *words)
    assert code == 2
    assert all(str(fact) in err for fact in facts)
    assert not (tmp_path / "s").exists()


def test_an_unknown_configuration_is_an_error(entitize: Run, tmp_path: Path) -> None:
    code, _, err = entitize("search", "mine_sweepr", "--param", "ppo.gamma=0..1", "--out", tmp_path / "s")
    assert (code, "mine_sweepr" in err, err.count("\n")) == (2, True, 1)


# -- folders of something else -------------------------------------------------------------------------------


def search(entitize: Run, folder: Path, *words: str) -> str:
    flags = ["search", "mine_sweeper", "--param", "ppo.gamma=0.9..0.99", "--out", str(folder), *words]
    code, _, err = entitize(*flags)
    assert (code, err.count("\n")) == (2, 1)
    return err


def test_a_folder_of_something_else_stays_as_it_is(entitize: Run, trained: Path, tmp_path: Path) -> None:
    assert "single run" in search(entitize, trained)
    (tmp_path / "notes.txt").write_text("mine")
    assert str(tmp_path) in search(entitize, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "experiment.yaml").write_text("kind: procgen\ncases: []\nnetworks: []\nseeds: []\n")
    assert "procgen" in search(entitize, other)
    code, _, err = entitize("report", other)
    assert (code, "search" in err) == (2, False)


def test_another_search_in_the_folder_is_named(entitize: Run, tmp_path: Path) -> None:
    from entitize.experiments.search import open_search

    folder = tmp_path / "s"
    open_search(folder, settings())
    open_search(folder, settings())
    err = search(
        entitize, folder, "--seeds", "2", "--param", "net.d_model=8,16", "--", "--ppo.num-steps", "9"
    )
    for fact in (
        "seeds is 1 there, 2",
        "--param net.d_model is not set there",
        "ppo.num_steps is 64 there, 9",
    ):
        assert fact in err
    assert "ppo.gamma" not in err
    assert "eval.every" in search(entitize, folder, "--", "--eval.every", "100")


def test_a_search_has_one_objective(tmp_path: Path) -> None:
    from entitize.experiments.search import open_search

    def judged(**options: Any) -> Any:
        base = settings().base
        return replace(settings(), base=replace(base, eval=replace(base.eval, every=100, **options)))

    open_search(tmp_path / "s", judged(episodes=4))
    with raises(UserError, "episodes", 4, 400):
        open_search(tmp_path / "s", judged(episodes=400))


def test_a_damaged_search_is_an_error(entitize: Run, tmp_path: Path) -> None:
    from entitize.experiments.search import open_search

    folder = tmp_path / "s"
    open_search(folder, settings())
    code, _, err = entitize("report", folder)
    assert (code, "search.db" in err) == (2, True)
    (folder / "search.db").write_text("no database")
    assert "search.db" in search(entitize, folder)
    data = yaml.safe_load((folder / "experiment.yaml").read_text())
    (folder / "experiment.yaml").write_text(yaml.safe_dump({**data, "pruner": "axe"}))
    assert "experiment.yaml" in search(entitize, folder)


def test_without_optuna_the_extra_is_named(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['optuna'] = None"
    program = f"{hide}; from entitize.cli import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "experiment.yaml").write_text("kind: search\ncases: []\nnetworks: []\nseeds: [0]\n")
    for words in (["search", "mine_sweeper"], ["report", str(tmp_path)]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
        assert done.returncode == 2 and "entitize[search]" in done.stderr, done.stderr
