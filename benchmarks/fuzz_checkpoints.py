"""Feeds damaged checkpoints, whose hashes are right again, to everything that reads checkpoints.

A reader may only return, or raise a CheckpointError that names the checkpoint, within some processor seconds.
`test_hostile_checkpoints.py` runs a few hundred; all of them:

    python benchmarks/fuzz_checkpoints.py 100000 [SEED] [GAME …]

Without a game they go round all native games, whose saved states are part of the checkpoints.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from entitize import load_agent, make_vec
from entitize.envs import (
    Categorical,
    Continuous,
    EntityActionSpace,
    EntitySpace,
    GlobalCategorical,
    MultiCategorical,
    SelectEntity,
    sample_actions,
)
from entitize.policies.baselines import GridNet, ImpalaNet, TransformerNet
from entitize.policies.checkpoint import METADATA, CheckpointError, own_sum
from entitize.policies.rogue_net import RogueNet
from entitize.trainers import PPO, PPOConfig, load_policy, read_checkpoint
from entitize.trainers.runs.checkpoint import network_metadata, write_checkpoint
from entitize.trainers.self_play import OpponentPool, past_self_play

from rows import script_parser

SECONDS = 5  # of processor time, for one reader
PAST_SELVES = "MultiSnake/lanes against past selves"
GAMES = (
    *("CherryPick", "Count", "FloorIsLava", "MaskedBandit", "MineSweeper", "Minefield", "MoveToOrigin"),
    *("MultiArmedBandit", "MultiSnake", "MultiSnake/lanes", "NotHotdog", "PickMatchingBalls"),
    *("RockPaperScissors", "TreasureHunt", "Xor", PAST_SELVES),
)
#: How often each kind of `networks` is taken; networks that take long to build are rare.
SHARES = (0.45, 0.2, 0.14, 0.15, 0.01, 0.05)
TENSORS_ENDING = ".safetensors"
STATE = "environments" + TENSORS_ENDING
DTYPES = {"I64": np.int64, "U64": np.uint64, "F32": np.float32, "F64": np.float64, "BOOL": np.uint8}

#: Values to put anywhere into the metadata.
POISON: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 10**7, 2**31, 2**63, 10**30, 10**300, 0.5, 1e308, -0.0),
    *(float("nan"), float("inf"), "", "x", "x.y", "\ud800", "\0", "../../etc/passwd", "/dev/zero"),
    *([], {}, [[]], {"a": 1}, [1, "x", None], ["x", "x"], list(range(3000)), [f"f{i}" for i in range(3000)]),
]  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class Files(dict[str, bytes]):
    """A checkpoint as bytes by file name."""

    @classmethod
    def read(cls, folder: Path) -> Files:
        return cls({path.name: path.read_bytes() for path in folder.iterdir()})

    def write(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, content in self.items():
            (folder / name).write_bytes(content)

    def metadata(self) -> dict[str, Any]:
        return json.loads(self[METADATA])

    def with_metadata(self, metadata: Any) -> Files:
        """The same files with right hashes."""
        if isinstance(metadata, dict) and isinstance(metadata.get("sha256"), dict):
            for name, content in self.items():
                if name != METADATA and name in metadata["sha256"]:
                    metadata["sha256"][name] = hashlib.sha256(content).hexdigest()
            metadata["sha256"][METADATA] = own_sum(metadata)
        return Files({**self, METADATA: json.dumps(metadata).encode()})

    def with_tensors(self, name: str, content: bytes) -> Files:
        """The same files, one of them with other content and the right hash."""
        return Files({**self, name: content}).with_metadata(self.metadata())


# -- sound checkpoints --------------------------------------------------------------------------------------


def trained(folder: Path, game: str) -> tuple[Files, PPO]:
    """A checkpoint with the state of a game's environments, and the trainer that wrote it."""
    venv = make_vec(game.removesuffix(" against past selves"), num_envs=2)
    config = PPOConfig(total_timesteps=16, num_steps=8, minibatch_size=8, normalize_rewards=True)
    net = RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1, d_qk=4)
    run = folder / "runs" / game
    if game == PAST_SELVES:
        venv = past_self_play(venv, OpponentPool(net, folder=run / "opponents"), interval=8)
    trainer = PPO(net, venv, config, run)
    trainer.train(progress=False)
    return Files.read(trainer.save_checkpoint()), trainer


def networks(folder: Path) -> list[Files]:
    """Checkpoints of several networks, without the state of a trainer."""
    checkpoints = []
    units = MultiCategorical({"kind": ["none", "move"], "move": 4}, {"move": ["move"]})
    board = EntitySpace(
        {"own": ["x", "y", "p"], "enemy": ["x", "y", "p"]}, EntityActionSpace({"Order": units})
    )
    frames = EntitySpace({}, EntityActionSpace({"Act": GlobalCategorical(["a", "b"])}), frame=(16, 16, 3))
    actions = {
        "Aim": Continuous([-1, 0], [1, 2]),
        "Pick": SelectEntity(),
        "Do": Categorical(3),
        "Order": units,
    }
    scene = EntitySpace(
        {"Robot": ["x", "y", "angle"], "type.%": ["x", "y"]},
        EntityActionSpace(actions),
        ["time"],
        hidden=True,
    )
    translation = {"reference": "Robot", "position": ["x", "y"], "add_distance": True}
    fourier = {"features": ["x"], "wavelengths": [2.0, 4.0]}
    relative = {"extent": [2, 2], "position": ["x", "y"], "key_projection": True}
    small = {"d_model": 8, "n_layer": 1, "d_qk": 4}
    nets = [
        RogueNet(scene, scene.actions, **small, translation=translation, fourier=fourier),
        RogueNet(
            scene,
            scene.actions,
            **small,
            relative_position=relative,
            separate_value_net=True,
            value_n_layer=2,
        ),
        TransformerNet(board, board.actions, height=4, width=4, n_layer=1, n_head=1, d_hidden=8),
        GridNet(board, board.actions, height=8, width=8, empty_planes=[0]),
        ImpalaNet(frames, frames.actions, channels=(4, 4), hidden=8),
    ]
    for network in nets:
        weights = {"policy": network.state_dict()}
        path = write_checkpoint(folder / "other", 1, weights, network_metadata(network))
        checkpoints.append(Files.read(path))
    return checkpoints


# -- damage -------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in nested JSON, down to the depth of metadata."""
    children: Any = ()
    if len(path) < 10 and isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def damage_metadata(files: Files, rng: np.random.Generator) -> Files:
    metadata = files.metadata()
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        found = places(metadata)[1:]
        if not found:
            break
        *parents, key = found[rng.integers(len(found))]
        holder = metadata
        for parent in parents:
            holder = holder[parent]
        way = rng.integers(8)
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[POISON_NAMES[rng.integers(len(POISON_NAMES))]] = holder.pop(key)
        elif way == 2 and isinstance(holder, list):
            holder.append(holder[key])
        elif way == 3:
            holder[key] = deep(int(rng.choice([3, 60, 70, 300])))
        elif way == 4 and isinstance(holder[key], int | float):
            holder[key] = holder[key] * rng.choice([2, -1, 0.5, 10]).item() + rng.choice([0, 1]).item()
        else:
            holder[key] = copy.deepcopy(POISON[rng.integers(len(POISON))])
    return files.with_metadata(metadata)


NUMBERS = (-(2**63), -(2**40), -2, -1, 0, 1, 2, 3, 5, 11, 36, 100, 2**31, 2**40, 2**63 - 1)


def damage_state(files: Files, rng: np.random.Generator) -> Files:
    """Other numbers in the state of the environments, of which some are still valid."""
    if STATE not in files:
        return damage_tensors(files, rng)
    content = bytearray(files[STATE])
    start = 8 + struct.unpack("<Q", content[:8])[0]
    table = json.loads(content[8:start])
    arrays = [entry for entry in table.values() if math.prod(entry.get("shape", [0]))]
    for _ in range(int(rng.choice([1, 1, 2, 5]))):
        entry = arrays[rng.integers(len(arrays))]
        first = start + entry["data_offsets"][0]
        numbers = np.frombuffer(
            content, DTYPES[entry["dtype"]], offset=first, count=math.prod(entry["shape"])
        )
        place = rng.integers(len(numbers)) if rng.random() < 0.8 else slice(None)
        if numbers.dtype.kind == "f":
            numbers[place] = rng.choice([float("nan"), float("inf"), -1.0, 0.5, 1e30, 3e38])
        else:
            numbers[place] = np.array(NUMBERS[rng.integers(len(NUMBERS))]).astype(numbers.dtype)
    return files.with_tensors(STATE, bytes(content))


POISON_NAMES = (
    "",
    "x",
    "seed",
    "../policy.safetensors",
    "checkpoint.json",
    "n_layer",
    "choices",
    "type",
    "frame",
)


def damage_text(files: Files, rng: np.random.Generator) -> Files:
    content = bytearray(files[METADATA])
    start = int(rng.integers(len(content)))
    noise = [
        b"[" * 100_000,
        b"1" * 10_000,
        b"\xff",
        b"",
        b'{"a":' * 50_000,
        b"null",
        b"1e999",
        b'"',
        rng.bytes(20),
    ]
    content[start : start + int(rng.integers(30))] = noise[rng.integers(len(noise))]
    try:
        return files.with_metadata(json.loads(bytes(content)))
    except (ValueError, RecursionError, TypeError):
        return Files({**files, METADATA: bytes(content)})


def damage_tensors(files: Files, rng: np.random.Generator) -> Files:
    """A changed table of tensors, or changed numbers, in one of the files."""
    names = [name for name in files if name.endswith(TENSORS_ENDING)]
    name = names[rng.integers(len(names))]
    content = files[name]
    length = struct.unpack("<Q", content[:8])[0]
    table, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    way = rng.integers(7)
    if way == 0 and len(data) >= 8:  # numbers that are none, or huge
        at = int(rng.integers(len(data) // 4)) * 4
        bad = rng.choice([float("nan"), float("inf"), -float("inf"), -1.0, 3e38])
        data[at : at + 4] = struct.pack("<f", bad)
    elif way == 1 and len(data) >= 8:
        at = int(rng.integers(len(data) // 8)) * 8
        data[at : at + 8] = struct.pack("<d", rng.choice([float("nan"), float("inf"), -5.0, 1e300]))
    elif way == 2:
        head = struct.pack("<Q", int(rng.choice([0, 1, 7, 2**40, 2**63 - 1, length - 1, length + 1])))
        return files.with_tensors(name, head + content[8:])
    elif way == 3:
        count = int(rng.choice([0, 1, 50, 11_000], p=[0.4, 0.4, 0.19, 0.01]))
        table |= {f"more{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(count)}
    elif table:
        key = list(table)[rng.integers(len(table))]
        if way == 4:
            table[str(rng.choice(["", "x", "0/step", "99/exp_avg", "torch_rng", key + "."]))] = table.pop(key)
        elif way == 5 and isinstance(table[key], dict) and "shape" in table[key]:
            shape = table[key]["shape"]
            shapes = [
                [],
                [0],
                [1, *shape],
                shape[::-1],
                [2**62, 0],
                [0] * 100,
                [math.prod(shape)],
                [-1],
                ["x"],
            ]
            table[key]["shape"] = shapes[rng.integers(len(shapes))]
            table[key]["dtype"] = str(
                rng.choice(["F32", "F32", "F64", "I64", "U8", "BOOL", "BF16", "C64", "X"])
            )
        else:
            del table[key]
    text = json.dumps(table).encode()
    return files.with_tensors(name, struct.pack("<Q", len(text)) + text + bytes(data))


def damage_files(files: Files, rng: np.random.Generator) -> Files:
    """A file that is missing, cut, or noise, with its hash made right."""
    names = list(files)
    name = names[rng.integers(len(names))]
    way = rng.integers(4)
    if way == 0:
        return Files({n: c for n, c in files.items() if n != name})
    if name == METADATA:
        return damage_text(files, rng)
    content = bytearray(files[name])
    if way == 1:
        content = content[: int(rng.integers(len(content)))]
    elif way == 2:
        at = rng.integers(len(content), size=int(rng.integers(1, 9)))
        for place in at:
            content[place] ^= 1 << int(rng.integers(8))
    else:
        content[8 : 8 + int(rng.integers(200))] = rng.bytes(int(rng.integers(200)))
    return files.with_tensors(name, bytes(content))


DAMAGES = (damage_metadata, damage_metadata, damage_tensors, damage_text, damage_files, damage_state)


# -- reading ------------------------------------------------------------------------------------------------


class _Late(BaseException):
    """A reader took too long."""


def _ring(*_: Any) -> None:
    raise _Late


def readers(trainer: PPO) -> dict[str, Callable[[Path], Any]]:
    def restore(path: Path) -> None:
        """Restore, and play on from there: kernels would trip over numbers out of range."""
        trainer.restore(path)
        if trainer.collector.shown is not None:
            batch = trainer.collector.shown.batch
            for step in range(6):
                rng = np.random.default_rng(step)
                batch, *_ = trainer.venv.step(sample_actions(trainer.venv.single_action_space, batch, rng))

    def act(path: Path) -> None:
        agent = load_agent(path, seed=0)
        agent.observation_space.seed(0)
        with suppress(ValueError):  # a random entity stands on no cell of a map
            agent.act(agent.observation_space.sample(), deterministic=True)

    return {
        "load_agent": act,
        "load_policy": load_policy,
        "read": read_checkpoint,
        "restore": restore,
    }


def run(
    number: int,
    seed: int,
    folder: Path,
    report: Callable[[str], None] = print,
    games: Sequence[str] = GAMES,
) -> Counter[str]:
    """Damage and read `number` checkpoints; returns outcomes by reader. Each failure is reported."""
    rng = np.random.default_rng(seed)
    others = networks(folder)
    runs = [trained(folder, game) for game in games]
    counts: Counter[str] = Counter()
    path = folder / "fuzz" / "step_000000000016"
    signal.signal(signal.SIGPROF, _ring)
    for i in range(number):
        files, trainer = runs[i % len(runs)]
        place = int(rng.choice(len(SHARES), p=SHARES))
        damage = DAMAGES[rng.integers(len(DAMAGES))]
        damaged = damage([files, *others][place], rng)
        every = readers(trainer)
        name = list(every)[rng.integers(len(every))] if damage is not damage_state else "restore"
        if place > 0 and name == "restore":  # that is for checkpoints of the trainer
            name = "read"
        damaged.write(path)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            every[name](path)
            outcome = "read"
        except CheckpointError as error:
            outcome = "refused" if str(path) in str(error) else "does not name the checkpoint"
            text = str(error)
        except _Late:
            outcome, text = "late", f"longer than {SECONDS} s of processor time"
        except Exception:  # what must not happen
            outcome, text = "failed", traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        counts[f"{name}: {outcome}"] += 1
        if outcome not in ("read", "refused"):
            counts["failures"] += 1
            kept = Path(tempfile.gettempdir()) / f"fuzz_checkpoints_{seed}_{i}"
            shutil.copytree(path, kept, dirs_exist_ok=True)
            report(f"case {i}, {games[i % len(games)]}, {name}: {outcome}; kept in {kept}\n{text}")
        if (i + 1) % 1000 == 0:
            report(f"{i + 1}: {dict(sorted(counts.items()))}")
    for _, trainer in runs:
        trainer.venv.close()
    return counts


if __name__ == "__main__":
    os.nice(10)
    parser = script_parser(__doc__)
    parser.add_argument("number", type=int, help="damaged checkpoints")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("games", nargs="*", metavar="GAME", default=GAMES)
    chosen = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        show = partial(print, flush=True)
        result = run(chosen.number, chosen.seed, Path(scratch), show, chosen.games)
    print(
        dict(sorted(result.items())), f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB"
    )
    sys.exit(bool(result["failures"]))
