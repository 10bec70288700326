"""Games of μRTS that evaluate an agent: planning them, playing them, and the file of results.

A job is a few games against one bot on one side. Its seed follows from it, so that it is the same on every
machine and at every time (against bots that don't use the clock).
"""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...adapters.microrts import REWARDS, MicroRTSVectorEnv
from ...envs import EntityBatch
from ...envs.vector.episode_counts import episode_quota
from ...files import parse_json, read_regular, replace_file
from ...policies import ActingPolicy, ActResult
from ...ragged import concatenate
from ...trainers import RandomActor, thread_count
from ..errors import UserError, differences
from ..networks import RANDOM, load_network
from .published_microrts import SEARCH_BOTS

#: Lanes played at once, and games per job. A search bot's thinking is what takes the time, lanes side by side
#: save none of it, and a kill should lose little of it.
QUICK_LANES, QUICK_GAMES = 10, 20
SEARCH_LANES, SEARCH_GAMES = 1, 2


@dataclass(frozen=True)
class MatchJob:
    """Games number `first` to `first + games - 1` of an agent against a bot on one side."""

    agent: str  # a name of `MatchSettings.checkpoints`, or `RANDOM`
    map: str
    bot: str  # or the name of another agent
    side: int  # the player that the agent is
    first: int
    games: int

    def __str__(self) -> str:
        last = self.first + self.games - 1
        return f"{self.agent} against {self.bot} on {self.map}, side {self.side}, games {self.first}–{last}"

    @property
    def lanes(self) -> int:
        return min(self.games, SEARCH_LANES if self.bot in SEARCH_BOTS else QUICK_LANES)

    def seed(self, seed: int) -> int:
        """Return the seed of environments and actions: equal for all agents, so that bots draw alike."""
        place = zlib.crc32(f"{self.map} {self.bot} {self.side}".encode())
        return int(np.random.SeedSequence([seed, place, self.first]).generate_state(1)[0])


@dataclass(frozen=True)
class MatchSettings:
    """Settings of games, independent of the players."""

    checkpoints: Mapping[str, Path]
    options: Mapping[str, Any] = field(default_factory=dict)  # of the vector environment
    deterministic: bool = False
    seed: int = 0


@dataclass(frozen=True)
class PlayedMatches:
    """The games of a job, ordered by lane and then by time."""

    job: MatchJob
    outcomes: list[str]  # "win", "draw" or "loss" of the agent
    steps: list[int]
    rewards: list[list[float]]  # each game's sums of the engine's six raw rewards
    failures: list[str]  # errors of bots, which ended games as draws
    seconds: float

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> PlayedMatches:
        """Restore a job from the dict that is stored of it.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        played = cls(**{**saved, "job": MatchJob(**saved["job"])})
        if not len(played.outcomes) == len(played.steps) == len(played.rewards) == played.job.games:
            raise ValueError(f"it does not hold {played.job.games} games")
        if not set(played.outcomes) <= {"win", "draw", "loss"}:
            raise ValueError(f"outcomes: expected win, draw or loss, got {played.outcomes!r:.80}")
        rewards = np.array(played.rewards, np.float64)
        if rewards.shape != (len(played.outcomes), len(REWARDS)) or not np.isfinite(rewards).all():
            raise ValueError(f"rewards: expected {len(REWARDS)} numbers of each game")
        if not np.isfinite(np.array([*played.steps, played.seconds], np.float64)).all():
            raise ValueError("steps and seconds: expected finite numbers")
        return played


def plan_jobs(
    agents: Sequence[str], maps: Sequence[str], bots: Sequence[str], sides: Sequence[int], games: int
) -> list[MatchJob]:
    """Return jobs for `games` games of each agent against each bot on each map, evenly from all `sides`."""
    jobs = []
    for agent, board, bot in ((a, m, b) for m in maps for b in bots for a in agents):
        size = SEARCH_GAMES if bot in SEARCH_BOTS else QUICK_GAMES
        for side, count in zip(sides, episode_quota(games, len(sides)).tolist(), strict=True):
            firsts = range(0, count, size)
            jobs += [MatchJob(agent, board, bot, side, first, min(size, count - first)) for first in firsts]
    return jobs


class Duel:
    """Two agents as one policy, in lanes that play each other: the first has `own`, the second the rest."""

    def __init__(
        self, agent: ActingPolicy, other: ActingPolicy, own: NDArray[np.int64], num_lanes: int
    ) -> None:
        others = np.setdiff1d(np.arange(num_lanes), own)
        self._parts = ((agent, own), (other, others))
        self._order = np.argsort(np.concatenate([own, others]))

    def act(self, batch: EntityBatch, rng: np.random.Generator, deterministic: bool = False) -> ActResult:
        """Choose the actions of all lanes; without log-probabilities, and with values of 0."""
        given = [agent.act(batch.gather(lanes), rng, deterministic).actions for agent, lanes in self._parts]
        actions = {name: concatenate([part[name] for part in given]).gather(self._order) for name in given[0]}
        return ActResult(actions, {}, np.zeros(len(batch), np.float32))


class MatchPlayer:
    """Plays jobs in this process. Each network is loaded once per map."""

    def __init__(self, settings: MatchSettings) -> None:
        self.settings = settings
        self._agents: dict[tuple[str, str], ActingPolicy] = {}

    def play(self, job: MatchJob) -> PlayedMatches:
        """Play a job on one thread.

        Raises:
            UserError: a network does not fit, or its checkpoint can't be read.
        """
        began = time.perf_counter()
        settings, seed = self.settings, job.seed(self.settings.seed)
        is_duel = job.bot in settings.checkpoints
        own = np.arange(job.side, 2 * job.lanes, 2) if is_duel else np.arange(job.lanes)
        lanes: dict[str, Any] = {"num_envs": job.lanes, "opponents": job.bot, "side": job.side}
        if is_duel:
            lanes = {"num_envs": 2 * job.lanes, "selfplay": 2 * job.lanes}
        with thread_count(1), MicroRTSVectorEnv(job.map, **lanes, **settings.options) as venv:
            actor = self._agent(job.agent, job.map, venv)
            if is_duel:
                actor = Duel(actor, self._agent(job.bot, job.map, venv), own, venv.num_envs)
            games = play_games(actor, venv, own, job.games, settings.deterministic, seed)
        failures = [game.failure for game in games if game.failure is not None]
        outcomes, steps = [game.outcome for game in games], [game.steps for game in games]
        rewards = [game.rewards for game in games]
        return PlayedMatches(job, outcomes, steps, rewards, failures, round(time.perf_counter() - began, 3))

    def _agent(self, name: str, board: str, venv: MicroRTSVectorEnv) -> ActingPolicy:
        if name == RANDOM:
            return RandomActor(venv.single_action_space)
        if (name, board) not in self._agents:
            path = self.settings.checkpoints[name]
            self._agents[name, board] = load_network(path, venv.single_observation_space)
        return self._agents[name, board]


@dataclass(frozen=True)
class PlayedGame:
    """One game of the agent."""

    outcome: str
    steps: int
    rewards: list[float]
    failure: str | None


def play_games(
    actor: ActingPolicy,
    venv: MicroRTSVectorEnv,
    own: NDArray[np.int64],
    games: int,
    deterministic: bool,
    seed: int,
) -> list[PlayedGame]:
    """Return whole games of the lanes `own`, a fixed number of each lane (see `trainers.evaluate`)."""
    rng = np.random.default_rng(seed)
    quota = dict(zip(own.tolist(), episode_quota(games, len(own)).tolist(), strict=True))
    played: dict[int, list[PlayedGame]] = {lane: [] for lane in quota}
    rewards, steps = np.zeros((venv.num_envs, len(REWARDS))), np.zeros(venv.num_envs, np.int64)
    batch, _ = venv.reset(seed=seed)
    while any(len(played[lane]) < count for lane, count in quota.items()):
        actions = actor.act(batch, rng, deterministic).actions
        with warnings.catch_warnings():  # of bots that fail: the table reports them
            warnings.filterwarnings("ignore", "MicroRTS env")
            batch, _, terminated, truncated, info = venv.step(actions)
        rewards += info["raw_rewards"]
        steps += 1
        for lane in np.flatnonzero(terminated | truncated).tolist():
            if len(played.get(lane, ())) < quota.get(lane, 0):
                failure = info["bot_error"][lane] if "bot_error" in info else None
                game = PlayedGame(info["outcome"][lane], int(steps[lane]), rewards[lane].tolist(), failure)
                played[lane].append(game)
            rewards[lane], steps[lane] = 0, 0
    return [game for lane in quota for game in played[lane]]


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
            file.write(_line(asdict(played)))
            file.flush()
            os.fsync(file.fileno())
        self._done.setdefault(played.job, played)

    def of(self, jobs: Iterable[MatchJob]) -> list[PlayedMatches]:
        """Return those of `jobs` that are finished."""
        return [self._done[job] for job in jobs if job in self._done]

    def everything(self, first: Iterable[MatchJob] = ()) -> list[PlayedMatches]:
        """Return all finished jobs, `first` before the others; each game once."""
        asked = self.of(first)
        return distinct_games((one for one in self._done.values() if one not in asked), asked)

    def missing(self, jobs: Iterable[MatchJob]) -> list[MatchJob]:
        """Return those of `jobs` that are not finished."""
        return [job for job in jobs if job not in self._done]

    def _read(self, head: dict[str, Any]) -> None:
        lines, size = _whole_lines(self.path)
        if not lines:
            raise UserError(f"{self.path} holds no results of `entitize eval microrts`")
        try:
            self._compare(json.loads(lines[0]), head)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{self.path} holds no results of `entitize eval microrts`: {error!r}") from error
        for played in _jobs(self.path, lines):
            self._done.setdefault(played.job, played)
        if size != self.path.stat().st_size:
            os.truncate(self.path, size)

    def _compare(self, found: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        if found["format"] != FORMAT:
            raise UserError(f"{self.path}: its format is {found['format']!r}, this version reads {FORMAT}")
        if differ := differences(found["settings"], head["settings"], "now"):
            raise UserError(
                f"{self.path} holds games by other settings: {differ}. They are not mixed: give"
                " another --out, or move that folder away"
            )


def read_played(path: Path) -> list[PlayedMatches]:
    """Return the finished jobs in a file of results, each game once; none where there is no file.

    A last line that is still being written is left out.

    Raises:
        UserError: the file is not one of `entitize eval microrts`, or is damaged.
    """
    return distinct_games(_jobs(path, _whole_lines(path)[0])) if path.exists() else []


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings that the games in a file of results have in common.

    Raises:
        UserError: the file can't be read, or is not one of `entitize eval microrts`.
    """
    try:
        return dict(parse_json(read_regular(path).partition(b"\n")[0])["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} holds no results of `entitize eval microrts`: {error!r}") from error


def _whole_lines(path: Path) -> tuple[list[bytes], int]:
    """Return the lines of a file that are complete, and the bytes that they take."""
    content = path.read_bytes()
    size = content.rfind(b"\n") + 1
    return content[:size].splitlines(), size


def _jobs(path: Path, lines: Sequence[bytes]) -> Iterator[PlayedMatches]:
    for number, line in enumerate(lines[1:], 2):
        try:
            yield PlayedMatches.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: no finished job ({error!r})") from error


def distinct_games(
    played: Iterable[PlayedMatches], preferred: Sequence[PlayedMatches] = ()
) -> list[PlayedMatches]:
    """Return `preferred`, then those of `played`, longest first, that repeat no earlier game.

    The last job of a bot is shorter where fewer games were asked for, so jobs of two commands can overlap.
    """
    seen: set[tuple[Any, ...]] = set()
    kept = []
    for one in [*preferred, *sorted(played, key=lambda one: -one.job.games)]:
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
