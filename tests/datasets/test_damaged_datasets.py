"""Damaged datasets: one error that names the file, and never other data than what was written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.datasets import DatasetError, DatasetWriter, EntityDataset, Steps

from facts import raises

#: Of truncations and mutations. ENTITIZE_FUZZ=10000 for a long look.
ROUNDS = int(os.environ.get("ENTITIZE_FUZZ", "150"))


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("datasets") / "plays"
    venv = ez.make_vec("MineSweeper", num_envs=3)
    with ez.datasets.Recorder(venv, path, steps_per_part=40) as recorder:
        batch, _ = recorder.reset(seed=1)
        recorder.action_space.seed(1)
        for _ in range(30):
            batch, *_ = recorder.step(recorder.action_space.sample(mask=batch))
    return path


def everything(dataset: EntityDataset) -> Steps:
    return dataset.gather(np.arange(len(dataset)))


def test_no_byte_can_change_what_is_read(plays: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(int(os.environ.get("ENTITIZE_FUZZ_SEED", "0")))
    whole = EntityDataset(plays)
    expected = everything(whole)
    names = sorted(file.name for file in plays.iterdir())
    refused = 0
    for round_ in range(ROUNDS):
        path = tmp_path / "copy"
        shutil.copytree(plays, path)
        file = path / names[rng.integers(len(names))]
        content = bytearray(file.read_bytes())
        if round_ % 3 == 0:
            content = content[: rng.integers(len(content))]
        else:
            for _ in range(rng.integers(1, 4)):
                content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        file.write_bytes(bytes(content))
        try:
            dataset = EntityDataset(path)
            found = everything(dataset)
        except DatasetError as error:
            assert str(path) in str(error)
            refused += 1
        else:  # nothing changed that says something
            assert (dataset.space, dataset.metadata) == (whole.space, whole.metadata)
            assert found.observations.equals(expected.observations)
            assert all(found.actions[name] == expected.actions[name] for name in expected.actions)
            for name, numbers in expected.numbers().items():
                np.testing.assert_array_equal(found.numbers()[name], numbers)
        shutil.rmtree(path)
    assert refused > ROUNDS * 0.8


def test_a_missing_file_is_named(plays: Path, tmp_path: Path) -> None:
    shutil.copytree(plays, tmp_path / "copy")
    (tmp_path / "copy" / "part-000001.arrow").unlink()
    with raises(DatasetError, "part-000001.arrow"):
        EntityDataset(tmp_path / "copy")


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"version": 2}, ("version", 1, 2)),
        ({"format": "something else"}, ("Entitize",)),
        ({"spaces": {"entities": 3}}, ("spaces",)),
        ({"parts": [{"file": "../../etc/passwd", "steps": 1, "sha256": ""}]}, ("../../etc/passwd",)),
        ({"parts": [{"file": "part-000000.arrow", "steps": -1, "sha256": ""}]}, (-1,)),
        ({"parts": 7}, ("parts",)),
    ],
)
def test_a_wrong_manifest_is_named(
    plays: Path, tmp_path: Path, change: dict[str, object], facts: tuple[object, ...]
) -> None:
    shutil.copytree(plays, tmp_path / "copy")
    manifest = tmp_path / "copy" / "dataset.json"
    manifest.write_text(json.dumps({**without_sum(manifest), **change}))
    with raises(DatasetError, manifest, *facts):
        EntityDataset(tmp_path / "copy")


def without_sum(manifest: Path) -> dict[str, Any]:
    """Return a manifest as the first datasets had it."""
    return {name: value for name, value in json.loads(manifest.read_text()).items() if name != "sha256"}


@pytest.mark.parametrize("change", [{"num_envs": 4}, {"env": "Count"}, {"spaces": "renamed"}])
def test_a_changed_manifest_is_refused_with_and_without_its_sum(
    plays: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    shutil.copytree(plays, tmp_path / "copy")
    manifest = tmp_path / "copy" / "dataset.json"
    content = without_sum(manifest)
    manifest.write_text(json.dumps(content))
    assert len(EntityDataset(tmp_path / "copy")) == len(EntityDataset(plays))
    if change == {"spaces": "renamed"}:  # the columns stay as they are
        change = {"spaces": json.loads(json.dumps(content["spaces"]).replace('"x"', '"z"'))}
        assert change["spaces"] != content["spaces"]
    manifest.write_text(json.dumps({**content, **change}))
    with raises(DatasetError, "part-000000.arrow", "dataset.json"):
        EntityDataset(tmp_path / "copy")
    manifest.write_text(json.dumps({**json.loads((plays / "dataset.json").read_text()), **change}))
    with raises(DatasetError, manifest, "SHA-256"):
        EntityDataset(tmp_path / "copy")


def test_keys_of_the_manifest_are_not_for_facts(plays: Path, tmp_path: Path) -> None:
    with raises(ValueError, "metadata", "parts"):
        DatasetWriter(tmp_path / "new", EntityDataset(plays).space, {"parts": 3})


def test_nesting_without_end_is_refused(plays: Path, tmp_path: Path) -> None:
    shutil.copytree(plays, tmp_path / "copy")
    (tmp_path / "copy" / "dataset.json").write_text("[" * 200_000)
    with raises(DatasetError, "dataset.json"):
        EntityDataset(tmp_path / "copy")
