"""The scenarios: those of the engine's package, and configuration files of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import vizdoom

from ...suggestions import did_you_mean

#: Scenarios that the engine plays as the host of a network game; without a host it crashes the process.
_HOSTED = ("cig", "multi", "multi_duel")


@dataclass(frozen=True)
class Scenario:
    """A scenario: its configuration file, and what its controls and variables are."""

    name: str
    path: Path
    binary_buttons: tuple[str, ...]
    delta_buttons: tuple[str, ...]
    #: The largest absolute value of each delta button; 0: unlimited.
    delta_limits: tuple[float, ...]
    variables: tuple[str, ...]
    #: Is a network game, with this process as its host and only player.
    is_hosted: bool


def scenario_names() -> list[str]:
    """Return the names of the scenarios that come with the engine's package."""
    return sorted(path.stem for path in Path(vizdoom.scenarios_path).glob("*.cfg"))


def find_scenario(name: str) -> Scenario:
    """Return the scenario of that name ("basic"), or of a configuration file ("games/mine.cfg").

    Raises:
        ValueError: there is no such scenario (the nearest name is given) or file, the engine cannot read it,
            or it has no buttons.
    """
    if name.endswith(".cfg"):
        path = Path(name).resolve()
        if not path.is_file():
            raise ValueError(f"ViZDoom: scenario: expected a configuration file, got {name!r}: no such file")
    else:
        path = Path(vizdoom.scenarios_path) / f"{name}.cfg"
        known = scenario_names()
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(
                f"ViZDoom: scenario: expected one of {', '.join(known)}, or a path that ends in .cfg,"
                f" got {name!r}{hint}"
            )
    game = vizdoom.DoomGame()
    try:
        game.load_config(str(path))
    except Exception as error:  # of many classes, without a common base
        raise ValueError(f"ViZDoom: scenario {name!r}: {error}") from error
    buttons = game.get_available_buttons()
    if not buttons:
        raise ValueError(f"ViZDoom: scenario {name!r}: available_buttons: expected at least one, got none")
    deltas = [button for button in buttons if vizdoom.is_delta_button(button)]
    return Scenario(
        name,
        path,
        tuple(button.name for button in buttons if not vizdoom.is_delta_button(button)),
        tuple(button.name for button in deltas),
        tuple(float(game.get_button_max_value(button)) for button in deltas),
        tuple(variable.name for variable in game.get_available_game_variables()),
        path.parent == Path(vizdoom.scenarios_path) and name in _HOSTED,
    )
