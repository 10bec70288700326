"""Effects on the process: each has one switch, and one line in the docs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from entitize import process

from facts import raises

PAGE = Path(__file__).resolve().parent.parent / "docs" / "process.md"


@pytest.mark.parametrize("effect", process.EFFECTS)
def test_an_effect_is_on_until_it_is_switched_off(effect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(process.variable(effect), raising=False)
    assert process.is_on(effect)
    monkeypatch.setenv(process.variable(effect), "0")
    assert not process.is_on(effect)
    process.switch(effect, True)
    assert process.is_on(effect)
    process.switch(effect, False)
    assert not process.is_on(effect)


def test_wrong_names_and_values_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(ValueError, "terse", *process.EFFECTS):
        process.is_on("terse")
    with raises(ValueError, "fast"):
        process.switch("fast", True)
    monkeypatch.setenv("ENTITIZE_TERSE_DUMPS", "no")
    with raises(ValueError, "ENTITIZE_TERSE_DUMPS", "0", "1", "no"):
        process.is_on("terse_dumps")


def test_the_page_lists_every_effect() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(process.EFFECTS)


def test_processes_inherit_blocked_interrupts() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    program = "import signal; print(*sorted(int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    with process.interrupts_blocked():
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {int(signal.SIGINT), int(signal.SIGTERM)} <= set(map(int, child.stdout.split()))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
