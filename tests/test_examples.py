"""The programs in examples/ run, and the tutorials show the same code."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts import find_map

from websocket_games import free_address

CHECKOUT = Path(__file__).resolve().parent.parent
EXAMPLES = CHECKOUT / "examples"


def run(program: str, *options: object, cwd: Path = EXAMPLES) -> str:
    """What a program prints on standard output."""
    command = [sys.executable, *program.split(), *map(str, options)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(EXAMPLES)])}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_couriers_are_trained_watched_and_put_into_a_loop(tmp_path: Path) -> None:
    folder = tmp_path / "couriers"
    assert set(re.findall(r"^\w+", run("couriers.py --steps 2048 --run", folder), re.M)) == {
        "random",
        "trained",
    }
    assert (folder / "curve.png").stat().st_size > 5_000
    run("-m entitize play --max-steps 3 --out", tmp_path / "play.gif", folder)
    assert (tmp_path / "play.gif").exists()
    assert "parcels left" in run("agent_in_a_loop.py --run", folder)


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("gymnasium_view.py", "gymnasium"),
        ("sb3_ppo.py", "stable_baselines3"),
        ("pettingzoo_team.py", "mpe2"),
        ("torchrl_ppo.py", "torchrl"),
    ],
)
def test_the_other_programs_run(program: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    assert "trained" in run(str(EXAMPLES / program), "--steps", 1024, cwd=tmp_path)


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_a_game_in_java_is_trained(tmp_path: Path) -> None:
    address = free_address()
    command = [sys.executable, "-m", "entitize", "train", "--listen", address, "--env.num-envs", "1"]
    command += ["--ppo.total-timesteps", "2000", "--run", str(tmp_path / "chase")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as trainer:
        assert trainer.stderr is not None and address in trainer.stderr.readline()
        game = subprocess.run(
            ["java", str(EXAMPLES / "Chase.java"), f"ws://{address}"], capture_output=True, text=True
        )
        errors = trainer.communicate()[1]
    assert trainer.returncode == 0, errors
    assert game.returncode == 0 and game.stderr == ""
    games, *scores = map(float, re.findall(r"\d+(?:\.\d+)?", game.stdout))
    assert games > 2000 / 30 and all(0 <= score <= 5 for score in scores)
    assert list((tmp_path / "chase" / "checkpoints").iterdir())


@pytest.mark.parametrize("more", [(), ("--drawn", "--expert-bots", "coacAI")])
def test_one_network_learns_from_two(tmp_path: Path, more: tuple[str, ...]) -> None:
    pytest.importorskip("gym_microrts")
    kept = CHECKOUT / "experiments" / "results" / "microrts_16x16_cloned"
    options = ("--start", kept / "clone", "--expert", kept / "ppo", "--steps", 60, "--epochs", 1)
    assert "round_2" in run("one_from_two.py", tmp_path, *options, *more, "--rounds", 2)
    assert (tmp_path / "plays_2" / "dataset.json").exists()


def test_variants_of_maps_look_the_same_to_both_players(tmp_path: Path) -> None:
    pytest.importorskip("gym_microrts")
    names = ["basesWorkers8x8A", "NoWhereToRun9x8", "basesWorkers16x16C"]
    printed = run("microrts_map_variants.py", tmp_path, "--maps", *names, "--variants", 5, "--seed", 2)
    files = printed.split()
    assert [Path(file).stem for file in files[:4]] == [f"{name}-0" for name in names] + [f"{names[0]}-1"]
    sizes = set()
    for file in files:
        size = find_map(file).size
        sizes.add(size)
        options: dict[str, Any] = {"opponents": "passiveAI", "perspective": "player", "side": [0, 1]}
        with ez.make_vec(f"MicroRTS/{file}", num_envs=2, **options) as venv:
            batch, _ = venv.reset(seed=1)
        for entities in batch.entities.values():
            first, second = (units[np.lexsort(units.T)] for units in entities)
            np.testing.assert_array_equal(first, second)
        assert len(batch.entities["Own"][0]) == len(batch.entities["Enemy"][0]) > 0
    assert {"8x8", "9x8", "16x16"} < sizes and len(sizes) > 8


def test_random_maps_look_the_same_to_both_players(tmp_path: Path) -> None:
    pytest.importorskip("gym_microrts")
    networkx = pytest.importorskip("networkx")  # of torch
    printed = run("microrts_random_maps.py", tmp_path, "--count", 24, "--seed", 5).split()
    options: dict[str, Any] = {"opponents": "passiveAI", "perspective": "player", "side": [0, 1] * 24}
    maps = [file for file in printed for _ in range(2)]
    with ez.make_vec("MicroRTS/basesWorkers8x8", num_envs=48, maps=maps, **options) as venv:
        batch, _ = venv.reset(seed=1)
    for entities in batch.entities.values():
        for lane in range(0, 48, 2):
            first, second = (units[np.lexsort(units.T)] for units in entities[lane : lane + 2])
            np.testing.assert_array_equal(first, second)
    assert {len(own) for own in batch.entities["Own"]} > {2, 3, 4}
    assert len({find_map(file).size for file in printed}) > 10
    walls = 0
    for file in printed:
        root = ElementTree.parse(file).getroot()
        terrain = (root.findtext("terrain") or "").strip()
        graph = networkx.grid_2d_graph(int(root.attrib["height"]), int(root.attrib["width"]))
        graph.remove_nodes_from(
            [cell for cell, mark in zip(list(graph), terrain, strict=True) if mark == "1"]
        )
        assert networkx.is_connected(graph)
        walls += terrain.count("1")
    assert walls > 10
    limits = ["--least", 14, "--apart", 12]
    far = run("microrts_random_maps.py", tmp_path / "far", "--count", 24, "--seed", 5, *limits).split()
    assert 0 < len(far) < 24
    for file in map(Path, far):
        root = ElementTree.parse(file).getroot()
        assert min(int(root.attrib["height"]), int(root.attrib["width"])) >= 14
        assert file.read_bytes() == (tmp_path / file.name).read_bytes()


def test_hunting_begins_in_late_states_and_rewards_coming_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gym_microrts")
    kept, states = CHECKOUT / "experiments" / "results" / "microrts_16x16_scratch", tmp_path / "states"
    run("microrts_hunting.py", states, "--run", kept, "--lanes=12", "--steps=800", "--search-iterations=5")
    monkeypatch.syspath_prepend(EXAMPLES)
    hunting = importlib.import_module("microrts_hunting")
    lanes: dict[str, Any] = {"opponents": {"workerRushAI": 1}, "late": {"passiveAI": 1, "randomAI": 1}}
    venv = hunting.make(3, states=str(states), near=0.5, gamma=0.9, reward_weights={"attack": 1}, **lanes)
    batch, _ = venv.reset(seed=1)
    assert all(1 <= len(moving(units)) <= 5 for units in batch.entities["Enemy"])
    assert [len(moving(units)) >= 8 for units in batch.entities["Own"]] == [False, True, True]
    venv.set_progress(0.75)
    for _ in range(60):
        before = batch
        batch, rewards, terminated, _, info = venv.step(venv.action_space.sample(mask=batch))
        after = [0 if terminated[lane] else 0.9 * far_from(batch, lane) for lane in range(3)]
        nearer = np.array([far_from(before, lane) - after[lane] for lane in range(3)])
        np.testing.assert_allclose(rewards, info["raw_rewards"][:, 4] + 0.125 * nearer, atol=1e-5)
    venv.close()

    chosen = [Path(game.map.name).stem for game in venv.games[1:]]
    ticks = [0, *(int(name.partition("_step")[2]) for name in chosen)]
    limit = max(ticks) + 20
    venv = hunting.make(3, states=str(states), near=0, max_steps=limit, **lanes)
    batch, _ = venv.reset(seed=1)
    assert (batch.globals[:, 0] * limit).tolist() == pytest.approx(ticks)
    now, ended = np.array(ticks), np.zeros(3, bool)
    for _ in range(20):  # a game may also be won before its limit: its next one begins at the same tick
        batch, _, terminated, *_ = venv.step(venv.action_space.sample(mask=batch))
        assert terminated[now + 1 == limit].all()
        now, ended = np.where(terminated, ticks, now + 1), ended | terminated
        assert (batch.globals[:, 0] * limit).tolist() == pytest.approx(now.tolist())
    assert ended[np.argmax(ticks)]
    venv.close()


def test_a_mixed_network_has_its_shares_of_both(tmp_path: Path) -> None:
    results = CHECKOUT / "experiments" / "results"
    kept = results / "microrts_16x16_scratch", results / "microrts_16x16_hunting"
    run("mix_networks.py", *kept, "--share", 0.25, "--out", tmp_path)
    before, after, mixed = (
        {name: weight.double().numpy() for name, weight in ez.load_policy(path).state_dict().items()}
        for path in (*kept, tmp_path)
    )
    for name, weight in mixed.items():
        np.testing.assert_allclose(weight, 0.75 * before[name] + 0.25 * after[name], atol=1e-6)


def moving(units: np.ndarray) -> list[np.ndarray]:
    """Those that are neither a base nor barracks."""
    return [unit for unit in units if not unit[7] and not unit[8]]


def far_from(batch: ez.EntityBatch, lane: int) -> float:
    """The mean distance of a lane's enemies from the nearest own unit that moves."""
    own = moving(batch.entities["Own"][lane])
    enemies = batch.entities["Enemy"][lane]
    return float(np.mean([min([30, *(abs(u[:2] - e[:2]).sum() for u in own)]) for e in enemies]))


def test_what_attention_tells_of_a_kept_run() -> None:
    kept = CHECKOUT / "experiments" / "results" / "procgen_25m" / "runs" / "bigfish" / "roguenet" / "0"
    printed = run("what_attention_tells.py bigfish", kept, "--steps", 160, "--lanes", 1)
    influence = dict(re.findall(r"^(most attended|random|most influential) +(\S+)", printed, re.M))
    assert float(influence["random"]) < float(influence["most influential"]) <= 1
    assert float(influence["most attended"]) <= float(influence["most influential"])


@pytest.mark.parametrize(
    ("page", "program"), [("tutorial-game.md", "couriers.py"), ("tutorial-gymnasium.md", "gymnasium_view.py")]
)
def test_a_tutorial_shows_the_class_of_its_program(page: str, program: str) -> None:
    shown = (CHECKOUT / "docs" / page).read_text()
    (game,) = re.findall(r"^class \w+\(.*Env\):\n(?:(?:    .*)?\n)+", (EXAMPLES / program).read_text(), re.M)
    assert game.strip() in shown
