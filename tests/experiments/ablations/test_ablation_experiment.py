"""`entitize experiment ablation`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from entitize.adapters.procgen import GAMES
from entitize.cli import AblationArguments, ablation_jobs
from entitize.experiments import UserError
from entitize.experiments.ablations import ablation_config, read_studies
from entitize.experiments.queue import read_runs

from facts import raises

Run = Callable[..., tuple[int, str, str]]


def asked(study: str, **flags: object) -> AblationArguments:
    return AblationArguments(study=study, out=Path("unused"), **flags)  # type: ignore[arg-type]


def test_every_game_variant_and_seed_is_a_run() -> None:
    jobs = ablation_jobs(
        asked("pooling", games=("heist", "maze"), variants=("max", "attention"), seeds=2, steps=500)
    )
    assert [job.name for job in jobs] == [
        f"{game}/{variant}/{seed}"
        for seed in (0, 1)
        for game in ("heist", "maze")
        for variant in ("max", "attention")
    ]
    expected = ablation_config("pooling", "maze", "max")
    assert jobs[2].config == replace(expected, ppo=replace(expected.ppo, seed=0, total_timesteps=500))


@pytest.mark.parametrize("study", read_studies())
def test_all_variants_in_the_games_of_the_study_are_the_default(study: str) -> None:
    chosen = read_studies()[study]
    names = [job.name for job in ablation_jobs(asked(study, seeds=1))]
    assert names == [f"{game}/{variant}/0" for game in chosen.games for variant in chosen.variants]


def test_all_games_are_those_that_the_study_can_be_asked_of() -> None:
    jobs = ablation_jobs(asked("width", games=("all",), variants=("d_32",), seeds=1))
    assert {job.config.env.id for job in jobs} == {f"Procgen/{game}" for game in GAMES}


def test_flags_of_train_go_to_every_run() -> None:
    flags = ("--env.num-envs", "8", "--net.n-layer", "1", "--env.kwargs", "num_levels=200")
    for job in ablation_jobs(asked("width", games=("maze",), seeds=1), flags):
        assert (job.config.env.num_envs, job.config.net.n_layer) == (8, 1)
        assert job.config.env.kwargs == {"distribution_mode": "easy", "num_levels": 200}
        assert f"d_{job.config.net.d_model}" == job.network


@pytest.mark.parametrize(
    ("study", "flags", "key"),
    [
        ("width", ("--net.d-model", "8"), "net.d_model"),
        ("chunk_size", ("--env.kwargs", "window=3"), "env.kwargs.window"),
        ("robots", ("--eval.vary", "nrobots=1,2"), "eval.vary"),
    ],
)
def test_a_flag_can_not_say_what_the_study_says(study: str, flags: tuple[str, ...], key: str) -> None:
    with raises(UserError, key, f"study {study}"):
        ablation_jobs(asked(study), flags)


def test_a_study_is_run_and_its_folder_is_for_no_other(entitize: Run, tmp_path: Path) -> None:
    out = tmp_path / "robots"
    words = ("robots", "--variants", "two", "--seeds", 1, "--steps", 16, "--jobs", 1, "--out", out)
    tiny = ("--env.num-envs", 2, "--ppo.num-steps", 4, "--ppo.minibatch-size", 8, "--net.d-model", 8)
    code, text, err = entitize("experiment", "ablation", *words, "--device", "cpu", "--", *tiny)
    assert (code, err) == (0, "")
    assert "MineSweeper/two/0 is done: 16 steps" in text
    (run,) = read_runs(out)
    assert (run.case, run.network, run.steps, run.is_done) == ("MineSweeper", "two", 16, True)
    assert run.config.eval.vary == {"nrobots": [1, 2, 3, 4, 6, 8]}
    about = yaml.safe_load((out / "experiment.yaml").read_text())
    assert (about["kind"], about["study"], about["baseline"]) == ("ablation", "robots", "two")
    code, _, err = entitize("experiment", "ablation", "mines", "--out", out)
    assert code == 2
    assert "is for the study robots, not mines; give another --out" in err


def test_without_a_study_all_are_listed(entitize: Run) -> None:
    code, out, _ = entitize("experiment", "ablation")
    assert code == 0
    for name, study in read_studies().items():
        assert f"\n{name}: {study.question}\n" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["widht"], "unknown study 'widht'; did you mean 'width'?"),
        (["width", "--games", "mase"], "unknown game 'mase'; did you mean 'maze'?"),
        (
            ["chunk_size", "--games", "bigfish"],
            "unknown game 'bigfish'; known: 'coinrun', 'maze'",
        ),
        (["width", "--variants", "d16"], "unknown variant 'd16'; did you mean 'd_16'?"),
    ],
)
def test_unknown_names_are_told(entitize: Run, tmp_path: Path, words: list[str], message: str) -> None:
    code, _, err = entitize("experiment", "ablation", *words, "--out", tmp_path / "out")
    assert code == 2
    assert message in err
    assert not (tmp_path / "out").exists()
