"""What `entitize experiment` is asked for: runs, their order, and folders that can't take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from entitize.adapters.procgen import GAMES
from entitize.cli import MicroRTSArguments, ProcgenArguments, microrts_jobs, procgen_jobs
from entitize.experiments import TrainConfig, UserError, find_config, parse, read_config, to_yaml
from entitize.experiments.queue import TrainingJob, in_order, open_experiment, read_experiment
from entitize.experiments.queue.training_jobs import continued

Run = Callable[..., tuple[int, str, str]]


def procgen(*words: str, train_flags: tuple[str, ...] = ()) -> list[TrainingJob]:
    return procgen_jobs(parse(ProcgenArguments, "experiment procgen", ["--out", "x", *words]), train_flags)


def microrts(*words: str) -> list[TrainingJob]:
    return microrts_jobs(parse(MicroRTSArguments, "experiment microrts", ["--out", "x", *words]))


def shipped(name: str) -> TrainConfig:
    return read_config(TrainConfig, find_config(name))


# -- which runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["--games", "maze,heist"], ["--games", "maze", "heist"], ["--games", "maze", "--games=heist"]]
)
def test_names_have_commas_or_spaces_between_them_or_a_flag_each(words: list[str]) -> None:
    assert [job.case for job in procgen(*words, "--seeds", "1")] == ["maze", "heist"]


def test_all_games_are_meant_unless_some_are_named() -> None:
    assert [job.case for job in procgen("--seeds", "1")] == list(GAMES)
    assert [job.case for job in procgen("--seeds", "1", "--games", "all")] == list(GAMES)
    assert len(GAMES) == 16


def test_seed_by_seed_a_first_answer_for_all_games_comes_early(tmp_path: Path) -> None:
    jobs = procgen("--games", "maze,heist", "--net", "roguenet", "--net", "impala", "--seeds", "2")
    names = [job.name for job in in_order(jobs, tmp_path)]
    assert names == [
        *("maze/roguenet/0", "heist/roguenet/0", "maze/impala/0", "heist/impala/0"),
        *("maze/roguenet/1", "heist/roguenet/1", "maze/impala/1", "heist/impala/1"),
    ]


def test_what_has_begun_comes_first(tmp_path: Path) -> None:
    jobs = procgen("--games", "maze,heist", "--seeds", "2")
    (jobs[3].folder(tmp_path) / "checkpoints").mkdir(parents=True)
    names = [job.name for job in in_order(jobs, tmp_path)]
    assert names == ["heist/roguenet/1", "maze/roguenet/0", "heist/roguenet/0", "maze/roguenet/1"]


def test_runs_have_the_configuration_of_their_network() -> None:
    jobs = procgen("--games", "coinrun", "--nets", "roguenet,roguenet_reference,impala", "--seeds", "1")
    for job, name in zip(jobs, ("procgen", "procgen_reference", "procgen_impala"), strict=True):
        file = shipped(name)
        env, ppo = replace(file.env, id="Procgen/coinrun"), replace(file.ppo, seed=0)
        assert job.config == replace(file, env=env, ppo=ppo)
        assert job.config.ppo.total_timesteps == 25_000_000
        assert job.evaluation is None


def test_steps_time_and_flags_of_train_go_to_every_run() -> None:
    words = ("--games", "coinrun", "--net", "impala,roguenet", "--seeds", "2", "--steps", "2.5M")
    jobs = procgen(*words, "--max-minutes", "7", train_flags=("--env.num-envs", "3", "--ppo.gamma", "0.9"))
    assert len(jobs) == 4
    for job in jobs:
        assert job.config.ppo.total_timesteps == 2_500_000
        assert job.config.max_minutes == 7
        assert (job.config.env.num_envs, job.config.ppo.gamma) == (3, 0.9)
        assert job.config.ppo.seed == job.seed
        assert job.config.env.kwargs["num_levels"] == 0


@pytest.mark.parametrize(
    ("text", "steps"),
    [("25M", 25_000_000), ("2.5M", 2_500_000), ("500k", 500_000), ("2_000_000", 2_000_000), ("7", 7)],
)
def test_steps_are_read(text: str, steps: int) -> None:
    (job,) = procgen("--games", "maze", "--seeds", "1", f"--steps={text}")
    assert job.config.ppo.total_timesteps == steps


@pytest.mark.parametrize("text", ["0", "-5", "1.5", "25G", "many", "0.0001k", "", "M"])
def test_what_are_no_steps_is_told(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        procgen(f"--steps={text}")
    told = capsys.readouterr().err
    assert stopped.value.code == 2 and "25M" in told and f"'{text}'" in told


def test_microrts_trains_each_network_on_each_map() -> None:
    jobs = {job.name: job for job in microrts("--seeds", "1", "--eval-games", "10")}
    small, large = "basesWorkers8x8", "basesWorkers16x16"
    networks = ["roguenet", "transformer", "transformer_embedding", "gridnet", "uas"]
    # 27 planes and 256 cells one-hot are no multiple of the paper's 7 heads: it has the embedding there
    expected = [f"{board}/{net}/0" for net in networks for board in (small, large)]
    expected.remove(f"{large}/transformer/0")
    assert list(jobs) == expected
    for name, job in jobs.items():
        assert job.config.env.id == f"MicroRTS/{job.case}", name
        assert job.evaluation is not None
        assert job.evaluation.words() == ["--games", "10", "--max-steps", "2000", "--fast"]
    longest = microrts("--all-bots", "--eval-max-steps", "4000")[0].evaluation
    assert longest is not None and longest.words() == ["--games", "100", "--max-steps", "4000"]
    assert jobs[f"{small}/roguenet/0"].config.ppo == replace(shipped("microrts_8x8").ppo, seed=0)
    assert jobs[f"{large}/roguenet/0"].config.ppo == replace(shipped("microrts").ppo, seed=0)
    assert jobs[f"{small}/transformer/0"].config.baseline == {"composite": "all", "position": "one_hot"}
    embedded = jobs[f"{large}/transformer_embedding/0"].config
    assert embedded.baseline == {"composite": "all", "position": "embedding"}
    assert embedded.ppo == replace(shipped("microrts_transformer").ppo, seed=0)
    assert jobs[f"{small}/gridnet/0"].config.network == "GridNet"
    assert jobs[f"{small}/uas/0"].config.network == "UnitActionNet"


# -- folders -------------------------------------------------------------------------------------------------


def test_the_folder_says_what_all_commands_asked_for(tmp_path: Path) -> None:
    assert read_experiment(tmp_path) is None
    open_experiment(tmp_path, "procgen", procgen("--games", "maze", "--seeds", "1", "--steps", "2M"))
    open_experiment(tmp_path, "procgen", procgen("--games", "heist,maze", "--net", "impala", "--seeds", "2"))
    assert yaml.safe_load((tmp_path / "experiment.yaml").read_text()) == {
        "kind": "procgen",
        "cases": ["maze", "heist"],
        "networks": ["roguenet", "impala"],
        "seeds": [0, 1],
        "steps": 25_000_000,
        "max_minutes": None,
    }


def put(job: TrainingJob, directory: Path, **changes: Any) -> Path:
    """A run folder with the configuration of a job, changed."""
    folder = job.folder(directory)
    folder.mkdir(parents=True)
    config = replace(job.config, ppo=replace(job.config.ppo, **changes))
    (folder / "config.yaml").write_text(to_yaml(config))
    return folder


def test_other_steps_are_another_run(tmp_path: Path) -> None:
    job = procgen("--games", "maze", "--seeds", "1", "--steps", "2M")[0]
    folder = put(job, tmp_path)
    open_experiment(tmp_path, "procgen", [job])
    more = procgen("--games", "heist,maze", "--seeds", "1", "--steps", "5M", "--max-minutes", "3")
    with pytest.raises(UserError) as refused:
        open_experiment(tmp_path, "procgen", more)
    assert str(refused.value).startswith(
        f"{folder} holds another run: max_minutes is None there, 3.0 was asked for;"
        " ppo.total_timesteps is 2000000 there, 5000000 was asked for."
    )
    assert read_experiment(tmp_path)["cases"] == ["maze"]  # type: ignore[index]


def test_where_a_run_is_trained_and_what_it_keeps_is_free(tmp_path: Path) -> None:
    job = procgen("--games", "maze", "--seeds", "1")[0]
    folder = put(job, tmp_path, device="cpu", num_threads=2, checkpoint_interval=7, keep_checkpoints=1)
    open_experiment(tmp_path, "procgen", [job])
    followed = replace(job.config, track="wandb", eval=replace(job.config.eval, episodes=7))
    (folder / "config.yaml").write_text(to_yaml(followed))
    open_experiment(tmp_path, "procgen", [job])


def test_a_run_that_starts_from_another_has_the_network_of_that(tmp_path: Path) -> None:
    job = procgen("--games", "maze", "--seeds", "1", train_flags=("--init-from", "runs/first"))[0]
    trained = replace(job, config=replace(job.config, net=replace(job.config.net, d_model=64)))
    put(trained, tmp_path)
    open_experiment(tmp_path, "procgen", [job])
    assert continued(job, job.folder(tmp_path)) == trained.config
    assert continued(job, tmp_path / "new") == job.config


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.yaml", "{}", "is the folder of a single run"),
        (
            "experiment.yaml",
            "kind: microrts\ncases: []\nnetworks: []\nseeds: []",
            "kind microrts, not procgen",
        ),
        ("experiment.yaml", "kind: procgen\ncases: 3", "cases: expected a list of str, got 3"),
        ("experiment.yaml", "- 1", "does not say what kind of experiment it is"),
        ("experiment.yaml", "a: [", "not valid YAML"),
        ("runs/maze/roguenet/0/config.yaml", "speed: 1", "unknown key 'speed'"),
        ("runs/maze/roguenet/0/checkpoints/x", "", "has checkpoints but no config.yaml"),
    ],
)
def test_a_folder_of_something_else_is_refused(
    entitize: Run, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    code, _, err = entitize("experiment", "procgen", "--games", "maze", "--out", tmp_path)
    assert code == 2
    assert message in err


def test_a_folder_that_is_a_file_is_told(entitize: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = entitize("experiment", "procgen", "--games", "maze", "--out", tmp_path / "file")
    assert (code, err.partition(":")[0]) == (2, "entitize")
    assert "can't be written" in err


# -- wrong words ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["procgn"], "unknown experiment 'procgn'; did you mean 'procgen'?"),
        (["procgen", "--games", "maze,coinrunn"], "unknown game 'coinrunn'; did you mean 'coinrun'?"),
        (
            ["procgen", "--net", "cnn3"],
            "unknown network 'cnn3'; known: 'roguenet', 'roguenet_large', 'roguenet_reference', 'impala'",
        ),
        (["procgen", "--net", ","], "expected at least one name, got ','"),
        (["procgen", "--seeds", "0"], "--seeds: expected at least 1, got 0"),
        (["procgen", "--jobs", "0"], "--jobs: expected at least 1, got 0"),
        (["procgen", "--max-minutes", "0"], "--max-minutes: expected a number above 0, got 0"),
        (["procgen", "--steps", "fast"], "Error parsing --steps: expected a number of steps such as 25M"),
        (["procgen", "--device", "cdua"], "--device: device: expected 'auto', 'cpu', 'cuda' or"),
        (["procgen", "--device", "cuda:99"], "--device: device='cuda:99': torch sees"),
        (["procgen", "--", "--env.id", "MineSweeper"], "--env.id: expected none after --"),
        (["procgen", "--", "--ppo.seed", "5"], "--ppo.seed: expected none after --"),
        (
            ["procgen", "--", "--ppo.total_timesteps=25000000"],
            "--ppo.total-timesteps: expected none after --",
        ),
        (["procgen", "--", "--run", "here"], "--run: expected none after --"),
        (
            ["procgen", "--", "--game", "my_game:play"],
            "--game my_game:play: expected options of the run alone",
        ),
        (["procgen", "--", "--ray", "3"], "--ray 3: expected options of the run alone"),
        (["procgen", "--", "--ppo.gamma", "2"], "gamma: expected a number from 0 to 1, got 2"),
        (["microrts", "--maps", "8x9"], "MicroRTS has no map 'basesWorkers8x9'; did you mean"),
        (["microrts", "--net", "gridnett"], "unknown network 'gridnett'; did you mean 'gridnet'?"),
        (["microrts", "--maps", "16x16", "--net", "transformer"], "Use transformer_embedding"),
        (["microrts", "--eval-games", "1"], "--eval-games: expected at least 2, got 1"),
        (["microrts", "--eval-max-steps", "0"], "--eval-max-steps: expected at least 1, got 0"),
    ],
)
def test_a_wrong_word_is_one_clear_error(
    entitize: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    kind, *rest = words
    code, _, err = entitize("experiment", kind, "--out", tmp_path / "out", *rest)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["procgen", "microrts"])
def test_every_kind_has_help(entitize: Run, kind: str) -> None:
    assert kind in entitize("experiment")[1]
    code, out, _ = entitize("experiment", kind, "--help")
    assert code == 0
    assert "--max-minutes" in out
    assert ("--eval-games" in out) == (kind == "microrts")
