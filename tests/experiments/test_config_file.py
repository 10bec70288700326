from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from entitize.experiments import ConfigError, Pairs, parse, read_config, to_yaml
from hypothesis import given
from hypothesis import strategies as st

from facts import raises


@dataclass(frozen=True)
class Inner:
    steps: int = 1
    rate: float = 0.5
    kind: Literal["mean", "max"] = "mean"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must not be negative, got {self.steps}")


@dataclass(frozen=True)
class Extra:
    size: int


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    name: str = "x"
    flag: bool = False
    limit: float | None = None
    folder: Path | None = None
    sizes: tuple[int, ...] = ()
    extra: Extra | None = None


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def from_text(text: str) -> Outer:
        path = tmp_path / "file.yaml"
        path.write_text(text)
        return read_config(Outer, path)

    return from_text


def test_what_the_file_leaves_out_keeps_its_default(read: Any) -> None:
    assert read("inner:\n  steps: 7\n") == Outer(Inner(steps=7))
    assert read("") == Outer()


def test_values_take_the_types_of_their_fields(read: Any) -> None:
    config = read("{limit: 2, folder: runs/a, sizes: [1, 2], flag: yes, inner: {kind: max, options: {a: 1}}}")
    assert config == Outer(Inner(kind="max", options={"a": 1}), "x", True, 2.0, Path("runs/a"), (1, 2))
    assert isinstance(config.limit, float)


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), ("1e3", 1000.0), ("2.5E+1", 25.0), ("-1e-2", -0.01)]
)
def test_exponents_without_a_point_are_numbers(read: Any, text: str, value: float) -> None:
    assert read(f"inner: {{rate: {text}}}").inner.rate == value


def test_a_date_is_text(read: Any) -> None:
    options = {"split": "2026-01-01", "at": "2026-01-01 12:30:00"}
    config = read(f"inner: {{options: {{split: {options['split']}, at: {options['at']}}}}}")
    assert config.inner.options == options
    assert read(to_yaml(config)) == config


def test_a_whole_float_is_a_number_of_steps(read: Any) -> None:
    steps = read("inner: {steps: 25e6}").inner.steps
    assert steps == 25_000_000
    assert isinstance(steps, int)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("inner: {step: 3}", ("file.yaml", "unknown key 'inner.step'", "'inner.steps'")),
        ("rate: 3", ("file.yaml", "unknown key 'rate'", "'inner.rate'")),
        ("zzz: 3", ("unknown key 'zzz'", "'inner', 'name', 'flag'")),
        ("inner: {steps: many}", ("file.yaml", "inner.steps", "int", "'many'")),
        ("inner: {steps: 2.5}", ("inner.steps", "int", 2.5)),
        ("inner: {steps: true}", ("inner.steps", "int", "True")),
        ("inner: {rate: true}", ("inner.rate", "float", "True")),
        ("flag: 1", ("flag", "bool", 1)),
        ("name: 3", ("name", "str", 3)),
        ("limit: soon", ("limit", "float", "null", "'soon'")),
        ("sizes: [1, x]", ("sizes", "int", "'x'")),
        ("inner: {kind: median}", ("inner.kind", "'mean', 'max'", "'median'")),
        ("inner: 3", ("inner", "section", 3)),
        ("[1, 2]", ("file.yaml", "section")),
        ("extra: {}", ("file.yaml", "extra", "missing", "'size'")),
        ("extra: {sise: 3}", ("unknown key 'extra.sise'", "'extra.size'")),
        ("extra: 3", ("extra", "section", 3)),
        ("inner: null", ("inner", "section", "None")),
        ("inner: {steps: -1}", ("file.yaml", "inner", "steps", -1)),
        ("name: a\nname: b", ("file.yaml", "YAML", "line 2", "'name'", "twice")),
        ("inner: {steps: 1", ("file.yaml", "YAML", "line 1")),
    ],
)
def test_a_mistake_is_told_with_file_and_key(read: Any, text: str, facts: tuple[object, ...]) -> None:
    with raises(ConfigError, *facts):
        read(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with raises(ConfigError, "missing.yaml", "No such file"):
        read_config(Outer, tmp_path / "missing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\xc3")
    with raises(ConfigError, "binary.yaml", "text"):
        read_config(Outer, tmp_path / "binary.yaml")


outers = st.builds(
    Outer,
    st.builds(
        Inner,
        st.integers(0, 10**9),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["mean", "max"]),
        st.dictionaries(st.text(min_size=1), st.integers() | st.booleans() | st.text() | st.none()),
    ),
    st.text() | st.just("1e5"),
    st.booleans(),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.just(Path("runs/a b")),
    st.lists(st.integers()).map(tuple),
    st.none() | st.builds(Extra, st.integers()),
)


@given(outers)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, config: Outer) -> None:
    path = tmp_path_factory.mktemp("yaml") / "config.yaml"
    path.write_text(to_yaml(config), encoding="utf-8")
    assert read_config(Outer, path) == config


@dataclass
class Words:
    values: Pairs = field(default_factory=dict)


def test_words_of_the_command_line_are_read_as_yaml() -> None:
    words = ["--values", "a=200", "b=1e-3", "c=true", "d=easy", "e=null", "f=None"]
    read = parse(Words, "", words)
    assert read.values == {"a": 200, "b": 1e-3, "c": True, "d": "easy", "e": None, "f": None}
