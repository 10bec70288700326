"""Pictures that only reports have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from .document import Row
from .measured_runs import steps_told
from .plots import COLOURS, save


def beside_published(path: Path, rows: Sequence[Row], names: Mapping[str, str]) -> None:
    """Draw normalised returns game by game into a PNG file, a black line for the published one.

    Args:
        rows: of the table of games, those with a normalised return.
        names: of the networks, in the order of their colours.
    """
    by_game: dict[str, list[Row]] = {}
    for row in rows:
        by_game.setdefault(row["game"], []).append(row)
    games = sorted(by_game, key=lambda game: max(row["normalised_mean"] for row in by_game[game]))
    colours = dict(zip(names, cycle(COLOURS)))
    height = 0.8 / len(names)
    figure = Figure(figsize=(7.5, 1.4 + 0.36 * len(games)), layout="constrained")
    axes = figure.subplots()
    handles: dict[str, Artist] = {}
    for place, game in enumerate(games):
        for index, row in enumerate(by_game[game]):
            middle = place + height * ((len(by_game[game]) - 1) / 2 - index)
            mean, network = row["normalised_mean"], row["network"]
            bar = axes.barh(middle, mean, 0.85 * height, color=colours[network])
            handles[names[network]] = bar.patches[0]
            if row["seeds"] > 1:
                ends = [row["normalised_low"], row["normalised_high"]]
                axes.plot(ends, [middle] * 2, color="#444444", linewidth=1)
            if row["published_normalised"] is not None:
                edges = [middle - height / 2, middle + height / 2]
                (line,) = axes.plot([row["published_normalised"]] * 2, edges, color="black", linewidth=2.5)
                handles["IMPALA, published, same steps"] = line
    axes.set_yticks(range(len(games)), [_label(game, by_game[game]) for game in games], fontsize=9)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_ylim(-0.6, len(games) - 0.4)
    axes.set_xlabel("normalised return")
    axes.grid(alpha=0.3, axis="x")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles), frameon=False)
    save(figure, path)


def _label(game: str, rows: Sequence[Row]) -> str:
    return f"{game} ({', '.join(dict.fromkeys(map(steps_told, rows)))})"
