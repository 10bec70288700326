"""Bots of μRTS as players of lanes: they do what they do as opponents, and their orders can be replayed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.microrts.java import ORDER, UNIT, start_engine
from entitize.adapters.microrts.java.bots import make_bot
from entitize.cli import main
from entitize.datasets import EntityDataset, replay

from facts import raises

MAP = "basesWorkers8x8"


@pytest.mark.parametrize("bot", ["coacAI", "mayari", "workerRushAI", "lightRushAI"])
def test_a_bot_that_is_asked_says_what_it_does_as_an_opponent(bot: str) -> None:
    venv = ez.microrts.MicroRTSVectorEnv(MAP, 1, opponents=bot, side=0)
    rival = ez.microrts.BotPlayers(venv, ["passiveAI"])
    adviser = venv.engine.adviser(bot, game=0, player=1)
    rng = np.random.default_rng(0)
    batch, _ = venv.reset(seed=1)
    adviser.start(0)
    id_, player, x, y, *action = (UNIT.index(name) for name in ("id", "player", *ORDER))
    given = 0
    for _ in range(300):
        before = {row[id_]: row for row in venv.observer.units_of(0).tolist()}
        advice = {(row[0], row[1]): row[2:] for row in adviser.orders().tolist() if row[2] > 0}
        batch, _, terminated, truncated, _ = venv.step(rival(batch, rng))
        if terminated[0] or truncated[0]:
            break
        begun = {}
        for row in venv.observer.units_of(0).tolist():
            old = before.get(row[id_])
            if row[player] == 1 and old and old[action[0]] == -1 and row[action[0]] > 0:
                begun[old[x], old[y]] = [row[column] for column in action]
        # What another player's order stood against is not begun.
        assert begun.items() <= advice.items()
        assert len(begun) >= len(advice) - 1
        given += len(begun)
    assert given > 5


@pytest.mark.parametrize("options", [{}, {"perspective": "player"}, {"partial_observability": True}])
def test_recorded_orders_of_both_players_replay_the_game(options: dict[str, object], tmp_path: Path) -> None:
    bots = ["mayari", "coacAI", "randomBiasedAI", "workerRushAI"]
    if options.get("partial_observability"):
        bots = ["POLightRush", "POWorkerRush", "randomBiasedAI", "POHeavyRush"]
    venv = ez.microrts.MicroRTSVectorEnv(MAP, 4, selfplay=4, max_steps=150, **options)
    players = ez.microrts.BotPlayers(venv, bots)
    ez.record(venv, players, tmp_path / "plays", steps=200, seed=3)
    assert players.bots == bots and players.num_refused == 0 < players.num_orders
    dataset = EntityDataset(tmp_path / "plays")
    assert [(e.lane, e.is_complete) for e in dataset.episodes][:4] == [(lane, True) for lane in range(4)]
    again = ez.microrts.MicroRTSVectorEnv(MAP, 4, selfplay=4, max_steps=150, **options)
    assert replay(dataset, again) is None
    # Another game is noticed.
    other = ez.microrts.MicroRTSVectorEnv(MAP, 4, selfplay=4, max_steps=149, **options)
    assert replay(dataset, other) is not None


def test_a_bot_against_a_bot_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plays, clone = tmp_path / "plays", tmp_path / "clone"
    words = ["record", f"MicroRTS/{MAP}", "--bots", "coacAI", "--num-envs", "2", "--steps", "60"]
    options = ["--kwargs", "opponents=workerRushAI", "side=both", "--out", str(plays)]
    assert main([*words, *options]) == 0
    assert EntityDataset(plays).metadata["policy"] == "bots: coacAI"
    assert main(["replay", str(plays)]) == 0
    assert "no difference" in capsys.readouterr().out
    flags = ["--cloning.epochs", "1", "--net.d-model", "8", "--net.n-layer", "1"]
    assert main(["clone", str(plays), "--run", str(clone), *flags]) == 0
    assert "order" in capsys.readouterr().out
    assert main([*words[:2], "--bots", "coacAl", "--out", str(tmp_path / "other")]) == 2
    assert "coacAI" in capsys.readouterr().err
    assert main(["record", "MineSweeper", "--bots", "coacAI", "--out", str(tmp_path / "other")]) == 2
    assert "MicroRTSVectorEnv" in capsys.readouterr().err


def test_bots_that_meet_on_the_command_line(tmp_path: Path) -> None:
    words = ["record", f"MicroRTS/{MAP}", "--bots", "coacAI", "mayari", "--num-envs", "4", "--steps", "20"]
    assert main([*words, "--kwargs", "selfplay=4", "--out", str(tmp_path / "plays")]) == 0
    dataset = EntityDataset(tmp_path / "plays")
    assert dataset.metadata["kwargs"]["selfplay"] == 4 == dataset.metadata["num_envs"]


class Faulty:
    """A bot that hangs or raises, in place of one of Java's."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end = seconds, threading.Event()

    def clone(self) -> Faulty:
        return self

    def reset(self) -> None:
        pass

    def getAction(self, player: int, state: object) -> object:
        self.end.wait(self.seconds)
        raise start_engine().JClass("java.lang.IllegalStateException")("no plan")


@pytest.mark.parametrize(("seconds", "fact"), [(60, "bot_timeout"), (0, "no plan")])
def test_a_bot_that_hangs_or_raises_ends_the_recording(
    seconds: float,
    fact: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = "entitize.adapters.microrts.java"
    faulty = Faulty(seconds)
    monkeypatch.setattr(
        f"{place}.engine.make_bot", lambda *words: faulty if words[1] == "rojo" else make_bot(*words)
    )
    monkeypatch.setattr(f"{place}.bot_adviser.find_generators", lambda *_: [])
    words = ["record", f"MicroRTS/{MAP}", "--bots", "rojo", "--num-envs", "1", "--steps", "3"]
    began = time.monotonic()
    assert main([*words, "--kwargs", "bot_timeout=0.2", "--out", str(tmp_path / "plays")]) == 2
    assert time.monotonic() - began < 60
    faulty.end.set()
    error = capsys.readouterr().err
    assert "rojo" in error and fact in error


def test_masked_orders_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As if the masks forbade all orders but "none".
    forbid = lambda _, orders, mask: np.repeat(orders[:, :1] == 0, orders.shape[1], 1)  # noqa: E731
    monkeypatch.setattr(ez.MultiCategorical, "legal", forbid)
    words = ["record", f"MicroRTS/{MAP}", "--bots", "coacAI", "--num-envs", "1", "--steps", "30"]
    assert main([*words, "--out", str(tmp_path / "plays")]) == 0
    assert "masked" in capsys.readouterr().out


def test_wrong_environments_and_bots_are_named() -> None:
    venv = ez.microrts.MicroRTSVectorEnv(MAP, 1, targets="entities")
    with raises(ValueError, "targets", "entities"):
        ez.microrts.BotPlayers(venv, ["coacAI"])
    with raises(TypeError, "MicroRTSVectorEnv"):
        ez.microrts.BotPlayers(ez.make_vec("MineSweeper"), ["coacAI"])  # type: ignore[arg-type]
    venv = ez.microrts.MicroRTSVectorEnv(MAP, 1)
    with raises(ValueError, "coacAI"):
        ez.microrts.BotPlayers(venv, ["coacIA"])
    with raises(ValueError, "bots"):
        ez.microrts.BotPlayers(venv, "coacAI")
