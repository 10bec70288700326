"""Batches of Griddly's environments, compared with what the engine reports of its state and allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from entitize.adapters.griddly.rules import AvatarWindow, Rules

DIRECTIONS = {"NONE": (0, -1), "UP": (0, -1), "RIGHT": (1, 0), "DOWN": (0, 1), "LEFT": (-1, 0)}


def expected(rules: Rules, state: dict[str, Any], player: int) -> dict[str, list[list[float]]]:
    """Return what `player` observes of a state, computed object by object: type -> features."""
    objects = [
        item for item in state["Objects"] if item["Name"] in rules.objects
    ]  # and the engine's "_empty"
    avatar = next((o for o in objects if o["Name"] == rules.avatar and o["PlayerId"] == player), None)
    found: dict[str, list[list[float]]] = {name: [] for name in rules.objects}
    if rules.window is not None and avatar is None:
        return found
    for item in objects:
        place: tuple[float, ...] = (*item["Location"], *DIRECTIONS[item["Orientation"]])
        if rules.window is not None:
            seen = seen_from(avatar, place, rules.window)
            if seen is None:
                continue
            place = seen
        if not rules.turns:
            assert item["Orientation"] == "NONE"
            place = place[:2]
        owner = item["PlayerId"]
        owners = [owner == player]
        if rules.num_players > 1:
            owners.append(owner not in (0, player))
        if rules.num_players > 2:
            turn = list(range(player, rules.num_players + 1)) + list(range(1, player))
            owners.append(turn.index(owner) + 1 if owner else 0)
        variables = [item["Variables"][name] for name in rules.objects[item["Name"]]]
        found[item["Name"]].append([*place, *map(float, owners), *variables])
    return found


def seen_from(avatar: Any, place: tuple[float, ...], window: AvatarWindow) -> tuple[float, ...] | None:
    """Return a place (x, y, direction) as the avatar sees it, or None where its window ends before it."""
    x, y, dx, dy = place[0] - avatar["Location"][0], place[1] - avatar["Location"][1], place[2], place[3]
    turns = {"NONE": 0, "UP": 0, "RIGHT": 1, "DOWN": 2, "LEFT": 3}[avatar["Orientation"]]
    for _ in range(turns * window.is_rotated):  # a quarter turn to the left
        x, y, dx, dy = y, -x, dy, -dx
    left, top = window.offset_x + window.width // 2, window.offset_y + window.height // 2
    if not (-left <= x < window.width - left and -top <= y < window.height - top):
        return None
    return x, -y, dx, -dy


def check_lanes(venv: Any, batch: Any) -> None:
    """Compare all lanes with the states of their games."""
    rules = venv.rules
    for lane in range(venv.num_envs):
        number, player = divmod(lane, rules.num_players)
        state = venv.games[number].process.get_state()
        wanted = expected(rules, state, player + 1)
        for name, rows in wanted.items():
            got = batch.entities[name][lane]
            order = np.lexsort((got[:, 0], got[:, 1]))
            wanted_rows = np.array(sorted(rows, key=lambda row: (row[1], row[0])), np.float32)
            assert got[order].tolist() == wanted_rows.reshape(got.shape).tolist(), (name, lane)
        values = [state["GlobalVariables"][name] for name in rules.variables]
        assert batch.globals[lane].tolist() == [value[(player + 1) % len(value)] for value in values]


def place(batch: Any, lane: int, index: int) -> tuple[int, int]:
    """Return the cell of an entity, of a game without a window."""
    for rows in batch.entities.values():
        if index < len(rows[lane]):
            return int(rows[lane][index][0]), int(rows[lane][index][1])
        index -= len(rows[lane])
    raise IndexError(index)


def check_masks(venv: Any, batch: Any) -> int:
    """Compare the masks of all lanes, without windows, with the engine's answers.

    Returns:
        The number of masked choices.
    """
    rules, labels, masked = venv.rules, venv.single_action_space["action"].choices, 0
    choices: dict[str, list[int]] = {}
    for choice, label in enumerate(labels[1:], 1):
        choices.setdefault(label.partition(":")[0], []).append(choice)
    for lane in range(venv.num_envs):
        process, part = venv.games[lane // rules.num_players].process, batch.actions["action"]
        got = {
            place(batch, lane, index): np.flatnonzero(row).tolist()
            for index, row in zip(part.actors[lane], part.mask[lane], strict=True)
        }
        cells = [tuple(cell) for cell in process.get_available_actions(lane % rules.num_players + 1)]
        wanted = {}
        for cell in got if rules.avatar else cells:
            answer = process.get_available_action_ids(list(cell), list(choices))
            allowed = sorted(choices[name][key - 1] for name, keys in answer.items() for key in keys)
            if allowed or rules.avatar:
                wanted[cell] = [0, *allowed]
            if rules.avatar and is_covered(rules, process.get_state(), cell):
                wanted[cell] = list(range(len(labels)))
        assert got == wanted
        masked += sum(len(labels) - len(allowed) for allowed in got.values())
    return masked


def is_covered(rules: Rules, state: dict[str, Any], cell: tuple[int, int]) -> bool:
    """Return true if an object above the avatar's height is in the cell."""
    here = [item["Name"] for item in state["Objects"] if tuple(item["Location"]) == cell]
    height = rules.heights[rules.avatar or ""]
    return any(rules.heights[name] > height for name in here if name in rules.heights)
