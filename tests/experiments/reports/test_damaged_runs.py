"""Runs with damaged files: a reader gives a run or one named error; a report leaves broken runs out."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from entitize.cli import write_report
from entitize.experiments import EnvConfig, UserError
from entitize.experiments.microrts import PlayedMatches
from entitize.experiments.queue import last_metrics, read_experiment, read_run
from entitize.experiments.reports import measure
from entitize.trainers import read_metrics, read_origin
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from facts import raises

FILES = ("config.yaml", "run.json", "metrics.jsonl.gz", "checkpoint.json")

#: What to write over the bytes at a place: values that parsers stumble over.
POISON = [
    *(b"1" * 10_000, b"[" * 20_000, b"{" * 20_000, b"Infinity", b"NaN", b"-1e999", b"1e15"),
    b"9223372036854775808",
    *(b"2026-13-45", b"null", b'"x"', b"\xff\xfe", b"\x00", b"", b"&a *a", b"!!python/object:os.system"),
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose metrics are compressed, as kept runs have them."""
    run = tmp_path_factory.mktemp("sound") / "runs" / "mines" / "roguenet" / "0"
    shutil.copytree(trained, run)
    metrics = run / "metrics.jsonl"
    (run / "metrics.jsonl.gz").write_bytes(gzip.compress(metrics.read_bytes()))
    metrics.unlink()
    return run


def copy(sound: Path, directory: Path, seed: int = 0) -> Path:
    run = directory / "runs" / "mines" / "roguenet" / str(seed)
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    return run


def find(run: Path, name: str) -> Path:
    return next(path for path in (run / name, *run.glob(f"checkpoints/*/{name}")) if path.exists())


def read_all(run: Path) -> None:
    """Read everything of a run; only `UserError` may come out."""
    try:
        record = read_run(run)
    except UserError:
        return
    measured = measure(record)
    assert measured.problem is None or "\n" not in measured.problem
    with suppress(ValueError):
        read_origin(run)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(FILES), poison=st.sampled_from(POISON), data=st.data())
def test_damage_gives_a_run_or_one_named_error(
    sound: Path, tmp_path: Path, name: str, poison: bytes, data: st.DataObject
) -> None:
    run = copy(sound, tmp_path)
    path = find(run, name)
    content = path.read_bytes()
    is_packed = path.suffix == ".gz" and data.draw(st.booleans())
    content = gzip.decompress(content) if is_packed else content
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 40)))
    content = content[:start] + poison + content[end:]
    path.write_bytes(gzip.compress(content) if is_packed else content)
    read_all(run)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_flipped_byte_of_compressed_metrics(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    run = copy(sound, tmp_path)
    path = run / "metrics.jsonl.gz"
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    read_all(run)


def with_metrics(**changes: object) -> Callable[[Path], None]:
    """Set values of the last line of the metrics."""

    def damage(run: Path) -> None:
        path = run / "metrics.jsonl.gz"
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        lines[-1] |= {name.replace("__", "/"): value for name, value in changes.items()}
        path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))

    return damage


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        path = find(run, name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(with_metrics(step=10**15), id="a step of 1e15"),
        pytest.param(with_metrics(step=2**63), id="a step of 2**63"),
        pytest.param(with_metrics(step=float("inf")), id="an infinite step"),
        pytest.param(with_metrics(time__elapsed=1e300), id="endless seconds"),
        pytest.param(with_metrics(charts__episodic_return=10**400), id="a return of 400 digits"),
        pytest.param(replaced("config.yaml", "steps: 32", "steps: " + "9" * 10_000), id="10,000 digits"),
        pytest.param(replaced("config.yaml", "kwargs: {}", "kwargs: {day: 2026-13-45}"), id="no date"),
        pytest.param(replaced("config.yaml", "kwargs: {}", "kwargs: " + "[" * 20_000), id="deep YAML"),
        pytest.param(lambda run: (run / "run.json").write_text("[" * 200_000), id="deep JSON"),
        pytest.param(lambda run: (run / "run.json").write_text('{"parts": [{"cores": []}]}'), id="odd"),
    ],
)  # fmt: skip
def test_a_report_stands_beside_a_broken_run(
    sound: Path, tmp_path: Path, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(env: EnvConfig, trained: EnvConfig) -> None:
        raise UserError("not counted")

    monkeypatch.setattr("entitize.experiments.reports.network_costs.make_whole_games", refuse)
    asked = {"kind": "procgen", "cases": ["mines"], "networks": ["roguenet"], "seeds": [0, 1]}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(asked))
    copy(sound, tmp_path, 0)
    damage(copy(sound, tmp_path, 1))
    write_report(tmp_path, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| mines | RogueNet |" in text


def test_seconds_of_a_checkpoint_that_are_no_number(sound: Path, tmp_path: Path) -> None:
    run = copy(sound, tmp_path)
    path = find(run, "checkpoint.json")
    path.write_text(path.read_text().replace('"elapsed_seconds": ', '"elapsed_seconds": "x", "was": '))
    with raises(UserError, str(run)):
        read_run(run)


@pytest.mark.parametrize("line", ['["time/elapsed"]', "[" * 16_000, '{"step": 1', "1" * 10_000])
def test_the_last_line_that_can_be_read_is_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 7}}\n{line}\n')
    assert last_metrics(tmp_path) in ({"step": 7}, {})


@pytest.mark.parametrize(
    "text", ["kind: procgen\nseeds: [x]", "[" * 20_000, "kind: 2026-13-45", "kind: ablation\nbaseline: [1]"]
)
def test_an_experiment_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "experiment.yaml").write_text(text)
    with raises(UserError, "experiment.yaml"):
        read_experiment(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"outcomes": ["won"]}, {"rewards": [[1, 2]]}, {"rewards": [["x"] * 6]}, {"steps": [float("inf")]}],
)  # fmt: skip
def test_games_that_are_none(change: dict[str, object]) -> None:
    job = {"agent": "a", "map": "m", "bot": "b", "side": 0, "first": 0, "games": 1}
    saved = {
        "job": job,
        "outcomes": ["win"],
        "steps": [5],
        "rewards": [[0.0] * 6],
        "failures": [],
        "seconds": 1.0,
    }
    assert PlayedMatches.from_json(saved).outcomes == ["win"]
    with pytest.raises((ValueError, TypeError)):
        PlayedMatches.from_json({**saved, **change})


#: Ten lines that say a thousand million values.
ALIASES = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))


@pytest.mark.parametrize("text", [ALIASES, "env: &env {kwargs: *env}", "? [1]\n: 2", "a: &a [*a]"])
def test_aliases_that_repeat_too_much(sound: Path, tmp_path: Path, text: str) -> None:
    run = copy(sound, tmp_path)
    (run / "config.yaml").write_text(text)
    with raises(UserError, run / "config.yaml"):
        read_run(run)


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("metrics.jsonl", b"\x80\x81\xff\n" * 3, "line 1"),
        ("metrics.jsonl", b'{"step": 1}\n[1]\n', "line 2"),
        ("metrics.jsonl", b'{"step": "1"}\n', "'step'"),
        ("metrics.jsonl.gz", gzip.compress(bytes(2**25)), "200"),
        ("metrics.jsonl.gz", b"\x1f\x8b garbage", "got"),
    ],
)  # fmt: skip
def test_damaged_metrics_name_their_file(tmp_path: Path, name: str, content: bytes, fact: str) -> None:
    (tmp_path / name).write_bytes(content)
    with raises(ValueError, tmp_path / name, fact):
        read_metrics(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["metrics.jsonl.gz", "run.json"])
def test_a_named_pipe_is_not_waited_for(sound: Path, tmp_path: Path, name: str) -> None:
    run = copy(sound, tmp_path)
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    problem = str(measure(read_run(run)).problem)
    assert ("pipe" in problem) == (name != "run.json")
    if name == "run.json":
        with raises(ValueError, run / name, "pipe"):
            read_origin(run)


def test_a_configuration_larger_than_the_memory(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(path: Path, *encoding: str) -> str:
        raise MemoryError

    run = copy(sound, tmp_path)
    os.truncate(run / "config.yaml", 40 * 2**30)
    monkeypatch.setattr(Path, "read_text", read_text)
    with raises(UserError, str(run / "config.yaml"), 40 * 2**30, "memory"):
        read_run(run)
