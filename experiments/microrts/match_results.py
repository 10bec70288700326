"""The file that finished jobs are kept in: a line with the settings, then a line of JSON for each job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...files import replace_file
from ..errors import UserError, differences
from .matches import MatchJob, PlayedMatches

FORMAT = 1


class ResultsFile:
    """Finished jobs on the disk, by one group of settings.

    A line that a kill has cut short is dropped, and its job counts as not played. A job that stands there
    twice counts once.

    Args:
        path: is made where it is missing, with its folder.
        settings: what all games there have in common, as JSON allows it.

    Raises:
        UserError: the file holds games by other settings (it says which differ), or can't be used.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._done: dict[MatchJob, PlayedMatches] = {}
        head = {"format": FORMAT, "settings": json.loads(json.dumps(dict(settings)))}
        try:
            if path.exists():
                self._read(head)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, _line(head))
        except OSError as error:
            raise UserError(f"{path} can't be used: {error}") from error

    def add(self, played: PlayedMatches) -> None:
        """Keep a finished job: after this it is on the disk."""
        with self.path.open("ab") as file:
            file.write(_line(played.as_json()))
            file.flush()
            os.fsync(file.fileno())
        self._done.setdefault(played.job, played)

    def of(self, jobs: Iterable[MatchJob]) -> list[PlayedMatches]:
        """Those of `jobs` that are finished."""
        return [self._done[job] for job in jobs if job in self._done]

    def everything(self, first: Iterable[MatchJob] = ()) -> list[PlayedMatches]:
        """All that is finished, `first` before the others; each game once."""
        asked = self.of(first)
        return distinct_games([*asked, *(one for one in self._done.values() if one not in asked)])

    def missing(self, jobs: Iterable[MatchJob]) -> list[MatchJob]:
        """Those of `jobs` that are not."""
        return [job for job in jobs if job not in self._done]

    def _read(self, head: dict[str, Any]) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if not lines:
            raise UserError(f"{self.path} holds no results of `entitize eval microrts`")
        try:
            self._compare(json.loads(lines[0]), head)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{self.path} holds no results of `entitize eval microrts`: {error!r}") from error
        for number, line in enumerate(lines[1:], 2):
            try:
                played = PlayedMatches.from_json(json.loads(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise UserError(f"{self.path}, line {number}: no finished job ({error!r})") from error
            self._done.setdefault(played.job, played)
        if whole != content:
            os.truncate(self.path, len(whole))

    def _compare(self, found: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if found["format"] != FORMAT:
            raise UserError(f"{self.path}: its format is {found['format']!r}, this version reads {FORMAT}")
        if differ := differences(found["settings"], head["settings"], "now"):
            raise UserError(
                f"{self.path} holds games by other settings: {differ}. They are not mixed: give"
                " another --out, or move that folder away"
            )


def distinct_games(played: Iterable[PlayedMatches]) -> list[PlayedMatches]:
    """Those of `played` that repeat no game of one before.

    The last job of a bot is shorter where fewer games were asked for, so jobs of two commands can overlap.
    """
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for one in played:
        job = one.job
        games = {
            (job.agent, job.map, job.bot, job.side, number)
            for number in range(job.first, job.first + job.games)
        }
        if seen.isdisjoint(games):
            seen |= games
            kept.append(one)
    return kept


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
