"""What a test starts ends with the test, also where it runs into its limit of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import processes
from waiting import wait_until

#: Starts a process that sleeps, writes its id and sleeps too; at SIGTERM it goes on, if asked to.
PROGRAM = """
import os, signal, subprocess, sys, time
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, lambda *_: None)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + "_", "w") as file:
    file.write(str(child.pid))
os.replace(sys.argv[1] + "_", sys.argv[1])
while True:
    time.sleep(600)
"""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("manner", ["usual", "stubborn"])
def test_children_end_with_a_process_at_its_limit(
    manner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "NOTICE", 0.1)
    with (
        pytest.raises(subprocess.TimeoutExpired),
        processes.started([sys.executable, "-c", PROGRAM, str(tmp_path / "id"), manner]) as process,
    ):
        wait_until((tmp_path / "id").exists)
        process.communicate(timeout=0.01)
    child = int((tmp_path / "id").read_text())
    wait_until(lambda: not is_running(child))
    assert not is_running(process.pid)


def test_output_and_code_are_those_of_the_process() -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = processes.run([sys.executable, "-c", program])
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
