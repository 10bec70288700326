"""`Doom`: one process of the engine, which plays one lane."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import vizdoom
from numpy.typing import NDArray

from ...process import interrupts_blocked
from .levels import check_level
from .options import DoomOptions
from .reading import Reading, read_labels, read_objects, read_walls
from .scenarios import Scenario

#: Engines start one after the other: a training in which several threads started them at once hung.
_STARTING = threading.Lock()
#: Data of the first game, whose first level is "e1m1".
_WITH_EPISODES = ("doom.wad", "doom1.wad", "freedoom1.wad")

_NO_WALLS = np.zeros((0, 5), np.float32)


class Outcome(NamedTuple):
    """The result of one step of a lane."""

    reading: Reading | None  # None: the episode has ended, and the engine shows nothing any more
    reward: float
    terminated: bool = False
    truncated: bool = False


class Doom:
    """An engine in a process of its own, without a window or sound.

    Args:
        scenario, options: what it plays.
        buttons: names of the buttons, in the order of the numbers that `step` takes.
        variables: names of the game variables that readings hold.
        render: frames are wanted.

    Raises:
        ValueError: there is no such level, or the engine refuses to start, as with a missing file of the
            game's data.
    """

    def __init__(
        self,
        scenario: Scenario,
        options: DoomOptions,
        buttons: tuple[str, ...],
        variables: tuple[str, ...],
        render: bool = False,
    ) -> None:
        self._options = options
        self._render = render
        self._walls = _NO_WALLS
        self.frame: NDArray[np.uint8] | None = None  # the last one (height, width, 3)
        self._folder = tempfile.TemporaryDirectory(prefix="entitize-vizdoom-")
        self.game = game = vizdoom.DoomGame()
        # Made after the folder, so that at the interpreter's exit the engine ends before its folder is gone.
        self._finalizer = weakref.finalize(self, _end, game, self._folder)
        game.load_config(str(scenario.path))
        if launcher := _launcher(Path(self._folder.name)):
            game.set_vizdoom_path(str(launcher))
        self._configure(scenario)
        game.set_available_buttons([vizdoom.Button.__members__[name] for name in buttons])
        game.set_available_game_variables([vizdoom.GameVariable.__members__[name] for name in variables])
        try:
            with _STARTING, interrupts_blocked():
                game.init()
        except Exception as error:  # of many classes, without a common base
            self.close()
            reason = str(error).rstrip(".")
            hint = "" if options.iwad else ". Name the game's data by the option iwad"
            raise ValueError(f"ViZDoom: scenario {scenario.name!r} does not start: {reason}{hint}") from error
        with suppress(OSError):
            os.rmdir("_vizdoom")  # an empty folder that the engine makes where the process works

    def _configure(self, scenario: Scenario) -> None:
        game, options = self.game, self._options
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24 if self._render else vizdoom.ScreenFormat.GRAY8)
        game.set_screen_resolution(options.screen(self._render))
        game.set_labels_buffer_enabled(True)
        game.set_objects_info_enabled(not options.visible_only)
        game.set_sectors_info_enabled(options.walls)
        game.set_depth_buffer_enabled(False)
        game.set_automap_buffer_enabled(False)
        game.set_audio_buffer_enabled(False)
        game.set_notifications_buffer_enabled(False)
        game.set_doom_config_path(str(Path(self._folder.name) / "vizdoom.ini"))
        if options.skill is not None:
            game.set_doom_skill(options.skill)
        if options.timeout is not None:
            game.set_episode_timeout(options.timeout)
        if options.iwad is not None:
            game.set_doom_game_path(str(Path(options.iwad).resolve()))
        if options.map is not None:
            check_level(options.map, game, options.game_args)
            game.set_doom_map(options.map)
        elif (
            Path(game.get_doom_game_path()).name.lower() in _WITH_EPISODES
            and not game.get_doom_scenario_path()
        ):
            game.set_doom_map("e1m1")
        if scenario.is_hosted:
            game.add_game_args(f"-host 1 -deathmatch -port {_free_port()}")
        if options.game_args:
            game.add_game_args(options.game_args)

    def start(self, seed: int) -> Reading:
        """Start an episode; the same seed starts the same one."""
        self.game.set_seed(seed)
        self.game.new_episode()
        if self._options.walls:
            self._walls = read_walls(self.game.get_state())
        return self._read()

    def step(self, pressed: list[float]) -> Outcome:
        """Hold the buttons for `frame_skip` tics, or until the episode ends."""
        game = self.game
        reward = game.make_action(pressed, self._options.frame_skip)
        if not game.is_episode_finished():
            return Outcome(self._read(), reward)
        truncated = game.is_episode_timeout_reached() and not game.is_player_dead()
        return Outcome(None, reward, not truncated, truncated)

    def _read(self) -> Reading:
        state = self.game.get_state()
        if self._render:
            self.frame = state.screen_buffer
        read = read_labels if self._options.visible_only else read_objects
        variables = np.asarray(state.game_variables)
        return Reading(read(state, self._options.effects), variables, self._walls)

    def close(self) -> None:
        """End the process."""
        self._finalizer()


def _end(game: vizdoom.DoomGame, folder: tempfile.TemporaryDirectory[str]) -> None:
    game.close()
    folder.cleanup()


def _launcher(folder: Path) -> Path | None:
    """Write a program that starts the engine so that it ends with this process, even if that is killed.

    None where the system has no means for it (most of Linux has).
    """
    engine, setpriv = Path(vizdoom.__file__).parent / "vizdoom", _setpriv()
    if setpriv is None or not engine.is_file():
        return None
    path = folder / "vizdoom"
    path.write_text(f'#!/bin/sh\nexec {setpriv} --pdeathsig KILL {shlex.quote(str(engine))} "$@"\n')
    path.chmod(0o700)
    return path if os.access(path, os.X_OK) else None  # not on a disk without programs


@functools.cache
def _setpriv() -> str | None:
    """Return the path of a `setpriv` that can end a process with its parent."""
    path = shutil.which("setpriv")
    if path is None:
        return None
    shown = subprocess.run([path, "--help"], capture_output=True, text=True, check=False).stdout
    return path if "--pdeathsig" in shown else None


def _free_port() -> int:
    """Return a free port; a network game needs one, even with a single player."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
