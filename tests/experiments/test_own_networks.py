"""The commands with a network of the user, "module:Class"."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
import yaml
from entitize.experiments import UserError, load_network

Run = Callable[..., tuple[int, str, str]]

MODULE = '''
import entitize as ez
from torch import nn


class Scaled(ez.RogueNet):
    """Multiplies what the blocks return."""

    def __init__(self, *spaces, factor=1.0, **options):
        super().__init__(*spaces, **options)
        self.factor = factor
        self.config["factor"] = factor

    def encode(self, inputs):
        rows, layout, attention = super().encode(inputs)
        return rows * self.factor, layout, attention


class Plain(nn.Module):
    """Reads nothing: no part of the library but what a policy must have."""

    def __init__(self, observation_space, action_space, size=4):
        super().__init__()
        self.net = ez.RogueNet(observation_space, action_space, d_model=size, n_layer=1, n_head=1)
        self.observation_space, self.action_space = observation_space, action_space
        self.config = {"size": size}
        for name in ("act", "value", "evaluate", "update_normalization"):
            setattr(self, name, getattr(self.net, name))


class Empty(nn.Module):
    def __init__(self, *spaces):
        super().__init__()


class Broken(ez.RogueNet):
    def __init__(self, *spaces, **options):
        super().__init__(*spaces, **options)
        self.nothing.x = 1


def function():
    pass
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module `own_nets` in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "own_nets.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("own_nets", None)


@pytest.fixture
def flags(small: tuple[str, ...]) -> tuple[str, ...]:
    """Flags of a short run with a network of the user, without options of RogueNet."""
    words = [word for word in zip(small[::2], small[1::2], strict=True) if not word[0].startswith("--net.")]
    return tuple(part for pair in words for part in pair)


def test_a_network_of_the_user_is_trained_resumed_and_played(
    module: Path, flags: tuple[str, ...], entitize: Run
) -> None:
    options = ("--network", "own_nets:Scaled", "--baseline", "d_model=8", "n_layer=1", "factor=0.5")
    code, _, err = entitize("train", *flags, *options, "--run", "run", "--ppo.total-timesteps", 32)
    assert code == 0, err
    config = yaml.safe_load(Path("run/config.yaml").read_text())
    assert config["network"] == "own_nets:Scaled"
    assert config["baseline"] == {"d_model": 8, "n_layer": 1, "factor": 0.5}

    own = sys.modules["own_nets"].Scaled
    network: Any = load_network(Path("run"))
    assert type(network) is own and network.factor == 0.5 and network.settings.d_model == 8
    code, _, err = entitize("train", "--resume", "run", "--ppo.total-timesteps", 64)
    assert code == 0, err
    stored = {path.name for path in Path("run/checkpoints").glob("step_*")}
    assert f"step_{64:012}" in stored

    # The commands play what Python plays.
    code, out, err = entitize("eval", "run", "--episodes", 60, "--seed", 5)
    assert code == 0, err
    with ez.make_vec("MineSweeper", num_envs=2) as venv:
        played = ez.evaluate(ez.load_policy("run", network=own), venv, 60, seed=5)
    assert f"{played.returns.mean():.2f}" in out and str(round(played.lengths.mean())) in out

    # Another run begins with its weights, and without its name.
    start = ("--init-from", "run", "--run", "second", "--ppo.total-timesteps", 16)
    code, _, err = entitize("train", *flags, *start, "--ppo.learning-rate", 1e-30)
    assert code == 0, err
    second: Any = load_network(Path("second/checkpoints") / f"step_{16:012}")
    assert type(second) is own
    for name, weights in load_network(Path("run")).named_parameters():
        torch.testing.assert_close(second.get_parameter(name), weights, rtol=0, atol=0)
    config = yaml.safe_load(Path("second/config.yaml").read_text())
    assert config["network"] == "own_nets:Scaled" and config["baseline"]["factor"] == 0.5

    for words in (("info", "run"), ("record", "run", "--out", "rec", "--steps", 40), ("report", "run")):
        code, _, err = entitize(*words)
        assert code == 0, (words, err)
    code, _, err = entitize("clone", "rec", "--run", "cloned", "--init-from", "run", "--cloning.epochs", 1)
    assert code == 0, err
    assert type(load_network(Path("cloned"))) is own


def test_a_network_that_is_no_rogue_net(module: Path, flags: tuple[str, ...], entitize: Run) -> None:
    options = ("--network", "own_nets:Plain", "--baseline", "size=2")
    code, _, err = entitize("train", *flags, *options, "--run", "run", "--ppo.total-timesteps", 32)
    assert code == 0, err
    assert entitize("eval", "run")[0] == 0
    code, out, _ = entitize("info", "run")
    assert code == 0 and "Plain(" in out
    with ez.make_vec("MultiSnake", num_envs=1) as venv, pytest.raises(UserError, match="Snake"):
        load_network(Path("run"), venv.single_observation_space)


def test_a_run_of_python_names_its_network(module: Path, entitize: Run) -> None:
    import own_nets  # type: ignore[import-not-found]

    with ez.make_vec("MineSweeper", num_envs=2) as venv:
        spaces = venv.single_observation_space, venv.single_action_space
        network = own_nets.Scaled(*spaces, d_model=8, n_layer=1, factor=2.0)
        config = ez.PPOConfig(num_steps=8, minibatch_size=16, total_timesteps=32)
        ez.PPO(network, venv, config, run_dir="run").train(progress=False)

        class Local(own_nets.Scaled):  # type: ignore[misc, name-defined]
            """No module has it, so only Python can load it."""

        ez.PPO(Local(*spaces, d_model=8), venv, config, run_dir="local").train(progress=False)
        batch, _ = venv.reset(seed=3)
    loaded: Any = load_network(Path("run"))
    assert type(loaded) is own_nets.Scaled and loaded.factor == 2.0
    expected = network.act(batch, np.random.default_rng(0)).log_probs["Move"]
    actual = loaded.act(batch, np.random.default_rng(0)).log_probs["Move"]
    np.testing.assert_allclose(actual.values, expected.values, rtol=1e-5)
    assert entitize("eval", "run", "--episodes", 2)[0] == 0
    code, _, err = entitize("eval", "local", "--episodes", 2)
    assert code == 2 and "Local" in err and "module:Class" in err


@pytest.mark.parametrize(
    ("network", "options", "facts"),
    [
        ("own_nets:Scald", (), ["Scald", "Scaled"]),
        ("own_net:Scaled", (), ["own_net", "own_nets"]),
        ("own_nets:function", (), ["own_nets:function", "class"]),
        ("own_nets:Broken", (), ["own_nets:Broken", "nothing", "own_nets.py:39"]),
        ("own_nets:Scaled", ("--baseline", "d_modle=8"), ["d_modle", "d_model"]),
        ("own_nets:Scaled", ("--net.d-model", "8"), ["d_model", "own_nets:Scaled", "baseline"]),
        ("own_nets:Empty", (), ["own_nets:Empty", "config", "act"]),
        ("Scaled", (), ["Scaled", "module:Class", "RogueNet"]),
        ("own_nets:Scaled", ("--init-from", "other"), ["own_nets:Scaled", "RogueNet"]),
    ],
)
def test_mistakes_are_named(
    module: Path,
    flags: tuple[str, ...],
    entitize: Run,
    trained: Path,
    network: str,
    options: tuple[str, ...],
    facts: list[str],
) -> None:
    (module / "other").symlink_to(trained)
    code, _, err = entitize("train", *flags, "--network", network, *options, "--run", "run")
    assert code == 2 and all(fact in err for fact in facts), err
    assert not Path("run").exists()


def test_cards_run_no_code_of_their_authors(
    module: Path, flags: tuple[str, ...], entitize: Run, trained: Path
) -> None:
    options = ("--network", "own_nets:Scaled", "--run", "run", "--ppo.total-timesteps", 16)
    assert entitize("train", *flags, *options)[0] == 0
    code, _, err = entitize("card", "run", "--out", "card")
    assert code == 2 and "own_nets:Scaled" in err and not Path("card").exists()

    assert entitize("card", trained, "--out", "card", "--episodes", 2)[0] == 0
    config = yaml.safe_load(Path("card/config.yaml").read_text())
    text = yaml.safe_dump({**config, "network": "own_nets:Scaled"} | {"net": {}})
    Path("card/config.yaml").write_text(text)
    sys.modules.pop("own_nets")
    for words in (("eval", "card"), ("info", "card"), ("eval", "card", "--env.id", "MineSweeper")):
        code, _, err = entitize(*words)
        assert code == 2 and "own_nets:Scaled" in err, (words, err)
    assert entitize("report", "card")[0] == 0  # without the size of the network
    shutil.copytree(trained / "checkpoints", "card/checkpoints")
    (checkpoint,) = Path("card/checkpoints").glob(f"step_{32:012}")
    for words in (("eval", checkpoint, "--env.id", "MineSweeper"), ("info", "--run", checkpoint)):
        entitize(*words)
    load_network(checkpoint)
    assert "own_nets" not in sys.modules


def test_the_run_of_a_checkpoint(module: Path, flags: tuple[str, ...], entitize: Run, trained: Path) -> None:
    options = ("--network", "own_nets:Scaled", "--run", "run", "--ppo.total-timesteps", 16)
    assert entitize("train", *flags, *options)[0] == 0
    own = sys.modules["own_nets"].Scaled
    step = Path("run/checkpoints") / f"step_{16:012}"
    Path("link").symlink_to(step)
    for path in (Path("run"), step, step.resolve(), Path("link")):
        assert type(load_network(path)) is own
    with chdir(step):
        assert type(load_network(Path())) is own
    # A network that was saved alone below a run or another project is its own.
    Path("project").mkdir()
    Path("project/config.yaml").write_text("defaults: [")
    for folder in (Path("run/nets/alone"), Path("project/nets/alone")):
        ez.save_policy(load_network(trained), folder)
        assert type(load_network(folder)) is ez.RogueNet
    code, _, err = entitize("train", "--init-from", "project/nets/alone", "--run", "second")
    assert code == 2 and "--env.id" in err and not Path("second").exists()


def test_a_run_is_continued_in_the_environment_of_its_network(
    module: Path, entitize: Run, small: tuple[str, ...], trained: Path
) -> None:
    Path("short.yaml").write_text("ppo: {num_steps: 8, minibatch_size: 16, total_timesteps: 16}")
    words = ("--config", "short.yaml", "--init-from", trained)
    code, _, err = entitize("train", *words, "--run", "second", "--env.num-envs", 2)
    assert code == 0, err
    config = yaml.safe_load(Path("second/config.yaml").read_text())
    assert config["env"]["id"] == "MineSweeper" and config["env"]["num_envs"] == 2
    assert config["eval"]["every"] is None and config["net"]["d_model"] == 8


@pytest.mark.parametrize(
    ("network", "options"),
    [("Scaled", {"d_model": 8, "n_layer": 1, "n_head": 1, "factor": 0.5}), ("Plain", {"size": 4})],
)
def test_past_selves_may_be_of_a_network_of_the_user(
    module: Path, entitize: Run, network: str, options: dict[str, Any]
) -> None:
    snakes: dict[str, Any] = {
        "env": {"id": "MultiSnake/lanes", "num_envs": 4, "kwargs": {"max_steps": 12}},
        "network": f"own_nets:{network}",
        "baseline": options,
        "ppo": {"total_timesteps": 128, "num_steps": 16, "minibatch_size": 64, "update_epochs": 1},
        "opponents": {"interval": 64},
    }
    Path("snakes.yaml").write_text(yaml.safe_dump(snakes))
    code, _, err = entitize("train", "--config", "snakes.yaml", "--run", "first")
    assert code == 0, err
    code, _, err = entitize("train", "--resume", "first", "--ppo.total-timesteps", 256)
    assert code == 0, err
    against = {**snakes, "opponents": {"interval": 64, "checkpoints": ["first"]}}
    Path("snakes.yaml").write_text(yaml.safe_dump(against))
    code, _, err = entitize("train", "--config", "snakes.yaml", "--run", "second")
    assert code == 0, err
    lines = [Path(run, "metrics.jsonl").read_text().splitlines()[0] for run in ("first", "second")]
    without, having = (json.loads(line)["opponents/size"] for line in lines)
    assert having == without + 1
