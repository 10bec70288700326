"""Write gallery.md and its pictures in images/gallery: `python docs/make_gallery.py`.

Entities, features and actions are those of the spaces. The pictures are of `render()` or, where a game has
none, of its entities as `entitize play` draws them. Where entities have no positions either, a table lists
those of one observation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
from entitize.adapters.procgen import GAMES
from entitize.cli import EntityDrawing
from entitize.viewer import position_columns
from PIL import Image

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "images" / "gallery"
SIZE = 320  # pixels, of the longer side
_ROWS = 8  # of a table, at most
PREAMBLE = """# Gallery of environments

Environments that come with Entitize or that it wraps, each with its entities, features and actions, and a
line that makes it. The pictures show them after some random actions; games without positions have a table of
one observation instead.
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
    """Return a map of μRTS."""
    name = "MicroRTS/basesWorkers8x8"
    return [Entry(name, f'ez.make_vec("{name}", num_envs=24)', _vec(name), 40)]


def vizdoom() -> list[Entry]:
    """Return some scenarios of ViZDoom."""
    names = [f"ViZDoom/{name}" for name in ("basic", "deadly_corridor", "health_gathering_supreme")]
    return [Entry(name, f'ez.make_vec("{name}", num_envs=16)', _vec(name), 12) for name in names]


def griddly() -> list[Entry]:
    """Return some games of Griddly."""
    names = [f"Griddly/{name}" for name in ("Clusters", "Zelda", "GriddlyRTS")]
    return [Entry(name, f'ez.make_vec("{name}", num_envs=16)', _board(name), 12) for name in names]


def _board(name: str) -> Callable[[], Any]:
    opponents = "random" if name == "Griddly/GriddlyRTS" else None
    return lambda: ez.make_vec(name, num_envs=1, opponents=opponents, render_mode="rgb_array")


def atari() -> list[Entry]:
    """Return some games of Atari."""
    names = [f"Atari/{name}" for name in ("Breakout", "MsPacman", "Pong", "Seaquest")]
    return [Entry(name, f'ez.make_vec("{name}", num_envs=16)', _vec(name), 60) for name in names]


def _vec(name: str, blind: bool = False) -> Callable[[], Any]:
    options = {} if blind else {"render_mode": "rgb_array"}
    return lambda: ez.make_vec(name, num_envs=1, **options)


def describe(space: Any) -> str:
    """Return the entities, features and actions of a space as a list."""
    types: dict[tuple[str, ...], list[str]] = {}
    for name, features in space.entities.items():
        types.setdefault(tuple(features), []).append(name)
    lines = [f"- **{', '.join(names)}**: {_features(features)}" for features, names in types.items()]
    if space.global_features:
        lines.append(f"- global features: {_features(tuple(space.global_features))}")
    lines += [f"- action `{name}`: `{action}`" for name, action in space.actions.spaces.items()]
    return "\n".join(lines)


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


def section(entry: Entry) -> str:
    """Return an environment's part of the page, and write its picture."""
    env = entry.make()
    space = getattr(env, "single_observation_space", None) or env.observation_space
    shown = picture(entry, env)
    env.close()
    parts = [f"### {entry.title}", f"`{entry.line}`", describe(space)]
    if isinstance(shown, str):
        return "\n\n".join([*parts, shown])
    file = PICTURES / f"{re.sub(r'[^a-z0-9]+', '-', entry.title.lower())}.png"
    scale = SIZE / max(shown.size)
    size = (round(shown.width * scale), round(shown.height * scale))
    sharp = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    shown.convert("RGB").resize(size, sharp).quantize(64).save(file, optimize=True)
    return "\n\n".join([parts[0], f"![{entry.title}]({file.relative_to(HERE)})", *parts[1:]])


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    groups = {
        "Built-in games": ("See [The built-in games](games.md).", games),
        "Procgen": ("See [Procgen](procgen.md).", procgen),
        "μRTS": ("See [μRTS](microrts.md).", microrts),
        "Atari": ("See [Atari](atari.md).", atari),
        "ViZDoom": ("See [ViZDoom](vizdoom.md).", vizdoom),
        "Griddly": ("See [Griddly](griddly.md).", griddly),
        "Gymnasium and PettingZoo": (
            "See [Wrap your environment](wrap.md), [PettingZoo](pettingzoo.md).",
            others,
        ),
    }
    parts = [PREAMBLE.strip()]
    for title, (where, entries) in groups.items():
        parts += [f"## {title}\n\n{where}", *map(section, entries())]
    (HERE / "gallery.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
