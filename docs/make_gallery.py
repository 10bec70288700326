"""Write gallery.md and its pictures in images/gallery: `python docs/make_gallery.py`.

Entities, features and actions are those of the spaces. The pictures are of `render()` or, where a game has
none, of its entities as `entitize play` draws them. Where entities have no positions either, a table lists
those of one observation. Lines that all environments of a group share stand once, at its head.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize.adapters import atari as atari_games
from entitize.adapters.griddly import read_rules
from entitize.adapters.griddly.library import find_game
from entitize.adapters.procgen import GAMES
from entitize.adapters.vizdoom import scenario_names
from entitize.cli import EntityDrawing
from entitize.viewer import position_columns
from PIL import Image

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "images" / "gallery"
#: Pixels of the longer side, and colours: the first with which a picture has at most `MOST_BYTES`.
SIZES = ((320, 64), (240, 64), (240, 32), (200, 32))
MOST_BYTES = 15_000
_ROWS = 8  # of a table, at most
#: A selection: the others are in the table.
BOARDS = (
    *("Bait", "Butterflies-and-Spiders", "Clusters", "Cook-Me-Pasta", "Doggo", "Drunk-Dwarf", "Eyeball"),
    *("Foragers", "GriddlyRTS", "Heal-Or-Die", "Kill-The-King", "Labyrinth", "Push-Mania", "Robot-Tag-4v4"),
    *("Sokoban", "Sokoban---2", "Spider-Nest", "Zelda", "Zen-Puzzle"),
)
#: Of one size each, or with bases, walls, armies or distant resources.
MAPS = (
    *("basesWorkers4x4", "basesWorkers8x8", "basesWorkers8x8Obstacle", "melee8x8Mixed6", "NoWhereToRun9x8"),
    *(
        "basesWorkers16x16",
        "TwoBasesBarracks16x16",
        "DoubleGame24x24",
        "BWDistantResources32x32",
        "chambers32x32",
    ),
)
PREAMBLE = """# Gallery of environments

Environments that come with Entitize or that it wraps, each with its entities, features and actions, and a
line that makes it. The pictures show them after some random actions; games without positions have a table of
one observation instead.

[Built-in games](#built-in-games) · [Procgen](#procgen) · [μRTS](#μrts) · [Atari](#atari) ·
[ViZDoom](#vizdoom) · [Griddly](#griddly) · [Gymnasium and PettingZoo](#gymnasium-and-pettingzoo)
"""


@dataclass(frozen=True)
class Entry:
    """An environment of the gallery."""

    title: str
    line: str  # of Python, which makes it
    make: Callable[[], Any]  # the same, ready to render
    steps: int = 12  # before the picture
    entities_only: bool = False  # `render()` is missing: draw the entities


def games() -> list[Entry]:
    """Return the built-in games."""
    entries = []
    for name in ez.games.GAMES:
        drawn = "rgb_array" not in ez.make_vec(name, num_envs=1).metadata["render_modes"]
        entries.append(
            Entry(
                name,
                f'ez.make_vec("{name}", num_envs=64)',
                _vec(name, drawn),
                steps=60 if name == "OrbitWars" else 12,
                entities_only=drawn,
            )
        )
    return entries


def procgen() -> list[Entry]:
    """Return the games of Procgen."""
    return [
        Entry(game, f'ez.make_vec("Procgen/{game}", num_envs=64)', _vec(f"Procgen/{game}"), 45)
        for game in GAMES
    ]


def others() -> list[Entry]:
    """Return environments of other packages."""
    import minigrid
    from minatar.gym import register_envs
    from mpe2 import simple_tag_v3

    gymnasium.register_envs(minigrid)
    register_envs()

    def wrapped(name: str) -> Callable[[], Any]:
        return lambda: ez.wrap(gymnasium.make(name, render_mode="rgb_array"))

    def tag() -> Any:
        game = simple_tag_v3.parallel_env(render_mode="rgb_array")
        return ez.from_pettingzoo(game, "team", team="adversary", opponents="random")

    names = ["CartPole-v1", "LunarLander-v3", "MiniGrid-DoorKey-5x5-v0"]
    return [
        *(Entry(name, f'ez.wrap(gymnasium.make("{name}"))', wrapped(name)) for name in names),
        Entry(
            "MPE simple_tag, a team",
            'ez.from_pettingzoo(simple_tag_v3.parallel_env(), "team", team="adversary", opponents="random")',
            tag,
        ),
    ]


def microrts() -> list[Entry]:
    """Return some maps of μRTS."""
    names = [f"MicroRTS/{name}" for name in MAPS]
    return [Entry(name, f'ez.make_vec("{name}", num_envs=24)', _vec(name), 40) for name in names]


def vizdoom() -> list[Entry]:
    """Return the scenarios of ViZDoom that need no data of one's own."""
    early = {
        "cig": 8,
        "deathmatch": 3,
        "health_gathering_supreme": 3,
        "multi": 3,
    }  # later a wall fills the view
    return [
        Entry(
            f"ViZDoom/{name}",
            f'ez.make_vec("ViZDoom/{name}", num_envs=16)',
            _vec(f"ViZDoom/{name}"),
            early.get(name, 12),
        )
        for name in scenario_names()
        if name not in ("doom", "doom2")
    ]


def griddly() -> list[Entry]:
    """Return some games of Griddly."""
    return [
        Entry(f"Griddly/{name}", f'ez.make_vec("Griddly/{name}", num_envs=16)', _board(name), 12)
        for name in BOARDS
    ]


def _board(name: str) -> Callable[[], Any]:
    opponents = "random" if read_rules(find_game(name)).num_players > 1 else None
    return lambda: ez.make_vec(f"Griddly/{name}", num_envs=1, opponents=opponents, render_mode="rgb_array")


def all_boards() -> str:
    """Return a table of all games of Griddly."""
    lines = ["| game | players | levels | entities | choices of `action` |", "|---|---|---|---|---|"]
    for name in ez.griddly.game_names():
        rules = read_rules(find_game(name))
        with _board(name)() as venv:
            types = ", ".join(venv.single_observation_space.entities)
            choices = len(venv.single_action_space["action"].choices)
        lines.append(f"| `{name}` | {rules.num_players} | {rules.num_levels} | {types} | {choices} |")
    return "\n".join(["### All games of Griddly", "", *lines])


def atari() -> list[Entry]:
    """Return the games of Atari that have a table."""
    names = [f"Atari/{name}" for name in atari_games.GAMES]
    return [Entry(name, f'ez.make_vec("{name}", num_envs=16)', _vec(name), 60) for name in names]


def _vec(name: str, blind: bool = False) -> Callable[[], Any]:
    options = {} if blind else {"render_mode": "rgb_array"}
    return lambda: ez.make_vec(name, num_envs=1, **options)


def describe(space: Any) -> list[str]:
    """Return the entities, features and actions of a space as the lines of a list."""
    types: dict[tuple[str, ...], list[str]] = {}
    for name, features in space.entities.items():
        types.setdefault(tuple(features), []).append(name)
    lines = [f"- **{', '.join(names)}**: {_features(features)}" for features, names in types.items()]
    if space.global_features:
        lines.append(f"- global features: {_features(tuple(space.global_features))}")
    return lines + [f"- action `{name}`: {_action(action)}" for name, action in space.actions.spaces.items()]


def _action(space: Any, most: int = 12) -> str:
    if not isinstance(space, ez.MultiCategorical):
        return f"`{space}`"
    components = [
        f"{name} ({', '.join(choices) if len(choices) <= most else f'{len(choices)} choices'})"
        for name, choices in space.components.items()
    ]
    return f"`MultiCategorical`: {', '.join(components)}"


def _features(names: tuple[str, ...], most: int = 16) -> str:
    shown = ", ".join(names[:most]) or "no features"
    return f"{shown}, … ({len(names)} in all)" if len(names) > most else shown


def table(space: Any, observation: Any) -> str:
    """Return the entities of the first lane as a Markdown table, equal ones in one row."""
    rows: Counter[tuple[str, str]] = Counter()
    for name, features in space.entities.items():
        for values in observation.entities[name][0]:
            rows[name, ", ".join(f"{f} {v:.3g}" for f, v in zip(features, values, strict=True))] += 1
    if space.global_features:
        values = zip(space.global_features, observation.globals[0], strict=True)
        rows["global features", ", ".join(f"{f} {v:.3g}" for f, v in values)] += 1
    lines = [
        f"| {name if number == 1 else f'{number} × {name}'} | {text} |"
        for (name, text), number in rows.items()
    ]
    if len(lines) > _ROWS:
        lines[_ROWS:] = [f"| … | {len(lines)} rows in all |"]
    return "\n".join(["| entities | features |", "|---|---|", *lines])


def picture(entry: Entry, env: Any) -> Image.Image | str:
    """Return a picture after some random actions, or a table where nothing has a position."""
    vector = isinstance(env, gymnasium.vector.VectorEnv)
    space = env.single_observation_space if vector else env.observation_space
    drawing = EntityDrawing(space) if entry.entities_only else None
    observation, _ = env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(entry.steps):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample(mask=observation))
        if not vector and (terminated or truncated):
            observation, _ = env.reset()
    if drawing is not None:
        if not any(position_columns(names) for names in space.entities.values()):
            return table(space, observation)
        return Image.fromarray(drawing.draw(observation, 0, ""))
    frame = np.asarray(env.render())
    return Image.fromarray(frame[0] if frame.ndim == 4 else frame)


def save(shown: Image.Image, file: Path) -> None:
    """Write a picture, smaller and with fewer colours until the file is small."""
    for longer_side, colours in SIZES:
        scale = longer_side / max(shown.size)
        size = (round(shown.width * scale), round(shown.height * scale))
        sharp = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
        shown.convert("RGB").resize(size, sharp).quantize(colours).save(file, optimize=True)
        if file.stat().st_size <= MOST_BYTES:
            break


def section(entry: Entry) -> tuple[list[str], list[str]]:
    """Return the lines of an environment's space and the paragraphs around them; write its picture.

    The paragraphs are its heading, its picture (of a table: nothing), its line of Python, and its table.
    """
    env = entry.make()
    space = getattr(env, "single_observation_space", None) or env.observation_space
    shown = picture(entry, env)
    env.close()
    heading, line = f"### {entry.title}", f"`{entry.line}`"
    if isinstance(shown, str):
        return describe(space), [heading, "", line, shown]
    file = PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', entry.title.lower())}.png"
    save(shown, file)
    return describe(space), [heading, f"![{entry.title}]({file.relative_to(HERE)})", line, ""]


def group(title: str, where: str, entries: Sequence[Entry]) -> list[str]:
    """Return the paragraphs of a group of environments."""
    sections = [section(entry) for entry in entries]
    first, others = sections[0][0], [lines for lines, _ in sections[1:]]
    shared = [line for line in first if all(line in lines for lines in others)]
    parts = [f"## {title}", where]
    if shared:
        parts += ["All of them have:", "\n".join(shared)]
    for lines, (heading, image, line, rows) in sections:
        own = "\n".join(text for text in lines if text not in shared)
        parts += [part for part in (heading, image, line, own, rows) if part]
    return parts


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    groups = {
        "Built-in games": ("See [The built-in games](games.md).", games),
        "Procgen": ("See [Procgen](procgen.md).", procgen),
        "μRTS": (
            "Some maps; `map_names()` of `entitize.adapters.microrts` lists all. See [μRTS](microrts.md).",
            microrts,
        ),
        "Atari": ("All games that have a table. See [Atari](atari.md).", atari),
        "ViZDoom": (
            "All scenarios but `doom` and `doom2`, which need data of your own. See [ViZDoom](vizdoom.md).",
            vizdoom,
        ),
        "Griddly": (
            "Some of the games, and [all by name](#all-games-of-griddly). See [Griddly](griddly.md).",
            griddly,
        ),
        "Gymnasium and PettingZoo": (
            "See [Wrap your environment](wrap.md), [PettingZoo](pettingzoo.md).",
            others,
        ),
    }
    parts = [PREAMBLE.strip()]
    for title, (where, entries) in groups.items():
        parts += group(title, where, entries())
        if title == "Griddly":
            parts.append(all_boards())
    (HERE / "gallery.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
