"""Dumps without the generators' text: nothing else is missing, and nobody else is given one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.procgen.replaced_functions import ReplacedFunctions, imported_functions
from entitize.adapters.procgen.terse import terse_dumps, without_generators
from hypothesis import given
from hypothesis import strategies as st


def is_whole(venv: ez.procgen.ProcgenVectorEnv) -> bool:
    """Whether the last dumps hold the generators, whose text has the numbers' usual lengths."""
    assert venv.engine is not None
    buffer = venv.engine.states
    dumps = [
        buffer.data[start : start + length].tobytes()
        for start, length in zip(buffer.starts, buffer.lengths, strict=True)
    ]
    counts = {len(re.findall(rb"(?:[0-9]{6,10} ){500}", dump)) for dump in dumps}
    assert counts in ({0}, {3})
    return counts == {3}


def played(
    game: str, steps: int, **changes: Any
) -> tuple[ez.procgen.ProcgenVectorEnv, list[dict[str, np.ndarray]]]:
    """A game after random play from one seed, and its observations."""
    venv = ez.procgen.ProcgenVectorEnv(game, 4, seed=3, num_threads=1)
    batch, _ = venv.reset()
    for name, value in changes.items():
        setattr(venv.engine, name, value)
    venv.action_space.seed(5)
    seen = []
    for _ in range(steps):
        batch = venv.step(venv.action_space.sample(mask=batch))[0]
        seen.append({kind: entities.values.copy() for kind, entities in batch.entities.items()})
    return venv, seen


@pytest.mark.parametrize("game", ez.procgen.GAMES)
def test_observations_are_those_of_whole_dumps(game: str) -> None:
    venv, seen = played(game, 60)
    assert venv.engine is not None and venv.engine.is_terse
    assert not is_whole(venv)
    venv.close()
    whole, expected = played(game, 60, is_terse=False)
    assert is_whole(whole)
    whole.close()
    for ours, theirs in zip(seen, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for kind in ours:
            np.testing.assert_array_equal(ours[kind], theirs[kind])


def test_the_engine_prints_whole_dumps_to_others_again() -> None:
    venv = ez.procgen.ProcgenVectorEnv("maze", 2, seed=1)
    venv.reset()
    engine = venv.engine
    assert engine is not None
    whole = engine.env.get_state()
    with terse_dumps as outer, terse_dumps as inner:  # two environments in two threads
        assert outer and inner
        short = [bytes(dump) for dump in engine.env.get_state()]
    with pytest.raises(KeyError), terse_dumps:
        raise KeyError
    again = engine.env.get_state()
    assert [bytes(dump) for dump in again] == [bytes(dump) for dump in whole]
    assert short == [without_generators(bytes(dump)) for dump in whole]
    engine.env.set_state(again)  # the engine aborts the process where it can't read a state
    venv.close()


def test_another_library_or_system_gets_whole_dumps(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = ReplacedFunctions({"a_function_that_it_does_not_import": None})
    monkeypatch.setattr("entitize.adapters.procgen.engine.terse_dumps", unknown)
    venv = ez.procgen.ProcgenVectorEnv("maze", 2, seed=1)
    venv.reset()
    assert venv.engine is not None and not venv.engine.is_terse
    assert is_whole(venv)
    venv.close()


def test_terse_dumps_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTITIZE_TERSE_DUMPS", "0")
    venv = ez.procgen.ProcgenVectorEnv("maze", 2, seed=1)
    venv.reset()
    assert is_whole(venv)
    venv.close()


def test_an_engine_whose_terse_dumps_lack_more_gets_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entitize.adapters.procgen.engine.without_generators", lambda dump: dump + b"more")
    venv = ez.procgen.ProcgenVectorEnv("maze", 2, seed=1)
    venv.reset()
    assert venv.engine is not None and not venv.engine.is_terse
    assert is_whole(venv)
    venv.close()


@pytest.mark.parametrize("text", ["", "not a map of memory /libenv.so\n", None])
def test_no_table_is_found_where_there_is_none(text: str | None, tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    if text is not None:
        maps.write_text(text)
    assert terse_dumps.entries(maps) == {}


def test_a_read_only_table_stays_as_it_is(tmp_path: Path) -> None:
    venv = ez.procgen.ProcgenVectorEnv("maze", 1, seed=1)
    venv.reset()  # maps the library
    maps = tmp_path / "maps"
    maps.write_text(Path("/proc/self/maps").read_text().replace(" rw-p ", " r--p "))
    assert terse_dumps.entries(maps) == {}
    venv.close()


def test_a_file_that_is_no_library_has_no_imports(tmp_path: Path) -> None:
    library = tmp_path / "libenv.so"
    library.write_bytes(b"no library at all")
    assert imported_functions(library) == {}


@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(5000, 7000)), max_size=3), st.binary(max_size=40)
)
def test_generators_are_emptied_wherever_they_stand(parts: list[tuple[bytes, int]], tail: bytes) -> None:
    dump, expected = b"", b""
    for before, length in parts:
        dump += before + length.to_bytes(4, "little") + (b"4294967295 " * 700)[:length]
        expected += before + bytes(4)
    assert without_generators(dump + tail) == expected + tail
