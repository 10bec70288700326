"""`export_onnx` and `entitize export`: what they write, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entitize as ez
import onnx
import pytest
import torch
from entitize import RogueNet, export_onnx
from entitize.cli import main
from entitize.envs import EntitySpace, space_schema
from entitize.policies.export import ExportError
from entitize.policies.rogue_net import attention
from entitize.trainers import CheckpointError, write_checkpoint
from torch import Tensor, nn

from facts import raises


@pytest.fixture
def net(make_space: Callable[..., EntitySpace]) -> RogueNet:
    torch.manual_seed(0)
    space = make_space()
    return RogueNet(space, space.actions)


@pytest.fixture
def run(net: RogueNet, tmp_path: Path) -> Path:
    metadata = {
        "spaces": space_schema(net.observation_space),
        "policy": {"class": "RogueNet", "config": net.config},
    }
    write_checkpoint(tmp_path / "run" / "checkpoints", 0, {"policy": net.state_dict()}, metadata)
    return tmp_path / "run"


def test_the_json_file_names_inputs_and_outputs(net: RogueNet, tmp_path: Path) -> None:
    file = export_onnx(net, tmp_path / "net.onnx")
    assert file.difference is not None
    assert file.difference < 1e-5
    names = json.loads(file.names.read_text())
    assert names["entitize"] == ez.__version__
    assert names["opset"] == 17
    assert names["spaces"] == space_schema(net.observation_space)
    assert names["inputs"]["entities/Enemy"] == {"dtype": "float32", "shape": ["num_Enemy", 6]}
    assert names["inputs"]["actions/move/mask"] == {"dtype": "int8", "shape": ["move_actors", 4]}
    assert names["outputs"]["actions/fire/logits"]["shape"] == ["fire_actors", "fire_actees"]
    assert names["raw_numbers"]["steer"] == {"origin": [0.0, 4.5], "scale": [1.0, 2.5], "squash": False}
    model = onnx.load(file.path)
    assert {node.name for node in model.graph.input} == set(names["inputs"])
    assert {node.name for node in model.graph.output} == set(names["outputs"])


def test_the_json_file_says_that_numbers_are_squashed(
    make_space: Callable[..., EntitySpace], tmp_path: Path
) -> None:
    space = make_space()
    file = export_onnx(RogueNet(space, space.actions, squash=True), tmp_path / "net.onnx")
    assert json.loads(file.names.read_text())["raw_numbers"]["steer"]["squash"] is True


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_a_run_gives_the_same_file_as_its_network(
    net: RogueNet, run: Path, tmp_path: Path, opset: int
) -> None:
    files = [export_onnx(run, tmp_path / "a.onnx", opset), export_onnx(net, tmp_path / "b.onnx", opset)]
    assert files[0].path.read_bytes() == files[1].path.read_bytes()
    assert onnx.load(files[0].path).opset_import[0].version == opset


@pytest.mark.full
def test_a_run_is_exported_without_torch(run: Path, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None; import entitize;"
        f"print(entitize.export_onnx({str(run)!r}, {str(tmp_path / 'net.onnx')!r}).difference < 1e-5)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert answer.stdout == "True\n", answer.stderr


def test_the_network_stays_as_it_was(net: RogueNet, tmp_path: Path) -> None:
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    export_onnx(net.train(), tmp_path / "net.onnx")
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


# -- networks that were changed ------------------------------------------------------------------------------


class Doubled(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        return 2 * self.inner(*inputs)


class OtherLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).abs()


def wrap_mlp(net: RogueNet) -> None:
    block: Any = net.policy_net.backbone.blocks[1]
    block.mlp = Doubled(block.mlp)


def subclass_head(net: RogueNet) -> None:
    head: Any = net.action_heads["move"]
    other = OtherLinear(head.proj.in_features, head.proj.out_features)
    other.load_state_dict(head.proj.state_dict())
    head.proj = other


def add_hook(net: RogueNet) -> None:
    net.policy_net.embedding.types["Food"].register_forward_hook(lambda module, inputs, out: out + 1)


def change_epsilon(net: RogueNet) -> None:
    block: Any = net.policy_net.backbone.blocks[0]
    block.ln1.eps = 1e-3


def replace_forward(net: RogueNet) -> None:
    forward = net.value_head.forward
    net.value_head.forward = lambda *inputs: forward(*inputs) + 1  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (wrap_mlp, "policy_net.backbone.blocks.1.mlp"),
        (subclass_head, "action_heads.move.proj"),
        (add_hook, "policy_net.embedding.types.Food"),
        (change_epsilon, "policy_net.backbone.blocks.0.ln1"),
        (replace_forward, "value_head"),
    ],
)
def test_a_changed_module_is_refused_by_name(
    change: Callable[[RogueNet], None], part: str, net: RogueNet, tmp_path: Path
) -> None:
    change(net)
    with raises(ExportError, part):
        export_onnx(net, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_changed_code_is_found_by_comparison(
    net: RogueNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = attention.attend
    monkeypatch.setattr("entitize.policies.rogue_net.blocks.attend", lambda *inputs: 1.5 * attend(*inputs))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    with raises(ExportError, "differ"):
        export_onnx(net, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_parameters_that_are_not_finite_are_refused_by_name(net: RogueNet, tmp_path: Path) -> None:
    with torch.no_grad():
        net.value_head.proj.bias.fill_(float("nan"))
    with raises(ExportError, "value_head.proj.bias", "finite"):
        export_onnx(net, tmp_path / "net.onnx")


def test_an_option_without_nodes_is_refused_where_nothing_is_compared(
    monkeypatch: pytest.MonkeyPatch, net: RogueNet, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class NewerConfig(type(net.settings)):  # type: ignore[misc]
        residual_scale: float = 1.0

    net.settings = NewerConfig(**{**net.config, "residual_scale": 0.5})
    monkeypatch.setattr("entitize.policies.export.source._changed_module", lambda net: None)
    with raises(ExportError, "residual_scale", 0.5):
        export_onnx(net, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_other_sources_are_refused(tmp_path: Path) -> None:
    with raises(ExportError, "RogueNet", "Linear"):
        export_onnx(nn.Linear(2, 2), tmp_path / "net.onnx")
    with raises(TypeError, "RogueNet", "int"):
        export_onnx(3, tmp_path / "net.onnx")
    with raises(CheckpointError, "nothing"):
        export_onnx(tmp_path / "nothing", tmp_path / "net.onnx")


def test_a_run_of_another_network_is_refused(net: RogueNet, tmp_path: Path) -> None:
    metadata = {"spaces": space_schema(net.observation_space), "policy": {"class": "GridNet", "config": {}}}
    checkpoint = write_checkpoint(tmp_path, 0, {"policy": net.state_dict()}, metadata)
    with raises(ExportError, "RogueNet", "GridNet"):
        export_onnx(checkpoint, tmp_path / "net.onnx")


# -- files and the command line ------------------------------------------------------------------------------


def test_wrong_paths_and_opsets(net: RogueNet, tmp_path: Path) -> None:
    with raises(ValueError, ".onnx", "net.pt"):
        export_onnx(net, tmp_path / "net.pt")
    with raises(FileNotFoundError, "absent"):
        export_onnx(net, tmp_path / "absent" / "net.onnx")
    with raises(ValueError, "opset", 17, 11):
        export_onnx(net, tmp_path / "net.onnx", opset=11)
    with raises(TypeError, "opset", "whole number", "'17'"):
        export_onnx(net, tmp_path / "net.onnx", opset="17")  # type: ignore[arg-type]
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(OSError):
        export_onnx(net, tmp_path / "folder.onnx")


def test_without_onnx_runtime_nothing_is_compared(
    net: RogueNet,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    find_spec = __import__("importlib.util").util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "onnxruntime" else find_spec(name)
    )
    assert export_onnx(net, tmp_path / "net.onnx").difference is None
    assert main(["export", str(run), "--out", str(tmp_path / "net.onnx")]) == 0
    assert "entitize[onnx]" in capsys.readouterr().out


def test_the_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("entitize.policies.export", "entitize.cli.export"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "run", "--out", "a.onnx"]) == 2
    assert "entitize[onnx]" in capsys.readouterr().err


def test_the_command_writes_both_files(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "agent.onnx"
    assert main(["export", str(run), "--out", str(out)]) == 0
    assert out.exists()
    assert out.with_suffix(".json").exists()
    assert str(out) in capsys.readouterr().out
    assert main(["export", str(run), "--out", str(out)]) == 0  # over the files of an earlier export
    other = tmp_path / "package.json"
    other.write_text('{"name": "mine"}')
    assert main(["export", str(run), "--out", str(tmp_path / "package.onnx")]) == 2
    assert str(other) in capsys.readouterr().err
    assert other.read_text() == '{"name": "mine"}' and not (tmp_path / "package.onnx").exists()
    assert main(["export", str(run), "--out", str(out), "--opset", "9"]) == 2
    assert "9" in capsys.readouterr().err
