"""Entities of Atari's games against the screen of the emulator: there are objects where regions of their
colours are, to a pixel or two (`Appearance.tolerance`), and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import entitize as ez
import numpy as np
import pytest

pytest.importorskip("ale_py")

from atari_screen import APPEARANCES, EDIBLE, GHOSTS, Box, covered, differences, islands

#: Pixels that count as 1 in positions and sizes, and pixels per step in velocities.
LENGTH, SPEED = 100, 10
STEPS = 300
#: The share of steps at which something may differ: while an object changes its shape the memory is a frame
#: ahead of the screen; in MsPacman the ghosts are hidden while she dies, in Skiing the skier can hide a flag,
#: in DemonAttack the sky flashes when the cannon explodes.
CHANGING = {
    "Asterix": 0.03,
    "Bowling": 0.04,
    "Boxing": 0.03,
    "DemonAttack": 0.12,
    "IceHockey": 0.05,
    "MsPacman": 0.12,
    "Seaquest": 0.04,
    "Skiing": 0.06,
    "SpaceInvaders": 0.04,
    "Tennis": 0.04,
}
#: Types that random actions meet too seldom.
RARE = {"Bonus", "Coconut", "DivingDemon", "Fruit", "Missile", "Patrol", "Saucer", "Submarine"}


def boxes(venv: Any, batch: Any, game: str) -> dict[str, list[Box]]:
    """Return the boxes of a lane's entities by type, from their features."""
    found: dict[str, list[Box]] = {}
    for name, appearance in APPEARANCES[game].items():
        features = venv.single_observation_space.entities[name]
        found[name] = []
        for row in batch.entities[name][0]:
            values = dict(zip(features, (row * LENGTH).tolist(), strict=True))
            width, height = appearance.size or (round(values["width"]), round(values["height"]))
            left, top = values["x"] - width / 2, values["y"] - height / 2
            found[name].append((round(left), round(top), width, height))
    return found


def play(venv: Any, steps: int) -> Any:
    """Yield batch, rewards, terminated and info, of steps with random actions that are held for a while."""
    batch, info = venv.reset(seed=5)
    venv.action_space.seed(5)
    yield batch, np.zeros(1), np.zeros(1, bool), info
    for step in range(steps):
        if step % 6 == 0:
            action = venv.action_space.sample(mask=batch)
        batch, rewards, terminated, _, info = venv.step(action)
        yield batch, rewards, terminated, info


def next_screens(console: Any, count: int) -> list[Any]:
    """Return the present screen and those of the next frames, from which the emulator returns."""
    ale = console.ale
    state, screens = ale.cloneState(include_rng=True), [ale.getScreen().copy()]
    for _ in range(count - 1):
        ale.act(0)
        screens.append(ale.getScreen().copy())
    ale.restoreState(state)
    return screens


def test_each_game_has_a_look() -> None:
    assert {*APPEARANCES} == {*ez.atari.GAMES}


#: The same for modes in which objects are more, larger, or move. Of a stretched car at the border of the
#: screen both ends can be seen.
MODES = {("Freeway", 1): 0.06, ("Freeway", 3): 0.16, ("Freeway", 6): 0.04, ("SpaceInvaders", 1): 0.04}


@pytest.mark.parametrize(("game", "mode"), [*((game, 0) for game in APPEARANCES), *MODES])
def test_entities_are_what_the_screen_shows(game: str, mode: int) -> None:
    appearances = APPEARANCES[game]
    if mode:
        appearances = {n: replace(look, tolerance=look.tolerance + 1) for n, look in appearances.items()}
    steps = []
    with ez.make_vec(f"Atari/{game}", frameskip=(2, 5), mode=mode or None) as venv:
        assert {*appearances} == {*venv.single_observation_space.entities}
        for batch, *_ in play(venv, STEPS):
            count = max(appearance.frames for appearance in appearances.values())
            steps.append((next_screens(venv.consoles[0], count), boxes(venv, batch, game)))
    usual = np.median([screens[0] for screens, _ in steps], axis=0).astype(np.uint8)
    wrong: dict[int, list[str]] = {}
    seen = dict.fromkeys(appearances, 0)
    for step in range(1, len(steps)):  # the first frame still has other colours
        history = [found for _, found in steps[max(0, step - 13) : step + 1]][::-1]
        if found := differences(steps[step][0], appearances, history, usual):
            wrong[step] = found
        for name, found in history[0].items():
            seen[name] += len(found)
    assert len(wrong) <= MODES.get((game, mode), CHANGING.get(game, 0)) * len(steps), wrong
    assert {name for name, count in seen.items() if not count} <= RARE, seen


@pytest.mark.parametrize("game", ez.atari.GAMES)
def test_velocities_are_differences(game: str) -> None:
    with ez.make_vec(f"Atari/{game}") as venv:
        spaces = venv.single_observation_space.entities
        single = [kind.name for kind in venv.game.types if kind.most == 1 and kind.moves]
        before: dict[str, Any] = {}
        moved = 0
        for batch, _, terminated, _ in play(venv, 120):
            for name in single:
                rows = batch.entities[name][0]
                if not len(rows):
                    before.pop(name, None)
                    continue
                now = dict(zip(spaces[name], rows[0].tolist(), strict=True))
                steps = [0.0, 0.0]
                if name in before and not terminated[0]:
                    steps = [now[axis] - before[name][axis] for axis in "xy"]
                velocities = [now[f"velocity_{axis}"] * SPEED / LENGTH for axis in "xy"]
                far = max(map(abs, steps)) > 0.48  # it has come back elsewhere
                assert velocities == ([0, 0] if far else pytest.approx(steps, abs=1e-5))
                moved += any(velocities)
                before[name] = now
        assert moved > 20 or not single


@pytest.mark.parametrize("game", ez.atari.GAMES)
def test_score_and_lives_are_those_of_the_emulator(game: str) -> None:
    """The score that a game shows is the sum of its rewards; where both players score, of the difference."""
    with ez.make_vec(f"Atari/{game}", frameskip=3) as venv:
        status = venv.game.status
        total = 0.0
        for batch, rewards, terminated, info in play(venv, 600):
            total = 0.0 if terminated[0] else total + rewards[0]
            shown = dict(zip(status, (batch.globals[0] * [*status.values()]).tolist(), strict=True))
            if "score" in shown:
                assert shown["score"] - shown.get("enemy_score", 0) == pytest.approx(total, abs=0.01)
            if "lives" in shown:
                assert shown["lives"] == pytest.approx(info["lives"][0], abs=1e-3)


@pytest.mark.parametrize(
    ("game", "name", "rows", "columns"),
    [
        ("Bowling", "round", (0, 12), (0, 60)),
        ("IceHockey", "time", (4, 13), (60, 100)),
        ("Kangaroo", "time", (190, 200), (70, 100)),
        ("Skiing", "gates", (6, 14), (60, 86)),
        ("Skiing", "time", (15, 24), (55, 100)),
        ("Seaquest", "divers", (177, 188), (50, 120)),
    ],
)
def test_numbers_change_with_those_on_the_screen(
    game: str, name: str, rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    """Equal values are drawn alike, others otherwise; the memory can be a frame ahead of the screen."""
    drawn: dict[float, Counter[bytes]] = {}
    with ez.make_vec(f"Atari/{game}", frameskip=4) as venv:
        index = [*venv.game.status].index(name)
        for batch, *_ in play(venv, 400):
            shown = venv.consoles[0].ale.getScreen()[slice(*rows), slice(*columns)]
            drawn.setdefault(float(batch.globals[0, index]), Counter())[shown.tobytes()] += 1
    usual = {look.most_common(1)[0][0] for look in drawn.values()}
    assert len(usual) == len(drawn) > 1
    assert sum(look.total() - look.most_common(1)[0][1] for look in drawn.values()) <= 4


def test_oxygen_is_as_long_as_its_bar() -> None:
    lengths = set()
    with ez.make_vec("Atari/Seaquest", frameskip=4) as venv:
        for batch, *_ in play(venv, 300):
            oxygen = round(float(batch.globals[0, 2]) * 64)
            bar = (venv.consoles[0].ale.getScreen()[172, 49:113] == 12).sum()
            assert bar == min(oxygen, 63)
            lengths.add(oxygen)
    assert len(lengths) > 40


@pytest.mark.parametrize("game", ["IceHockey", "Kangaroo", "MsPacman", "Seaquest", "Skiing"])
def test_a_player_moves_in_its_direction(game: str) -> None:
    """In Skiing the direction has 16 steps, and in IceHockey a player that is pushed moves otherwise."""
    agrees = Counter[bool]()
    with ez.make_vec(f"Atari/{game}", frameskip=4) as venv:
        features = venv.single_observation_space.entities["Player"]
        for batch, *_ in play(venv, 500):
            for row in batch.entities["Player"][0]:
                values = dict(zip(features, row.tolist(), strict=True))
                for feature in (name for name in features if name.startswith("direction")):
                    assert -1 <= values[feature] <= 1
                    velocity = values["velocity_y" if feature == "direction_y" else "velocity_x"]
                    if velocity and values[feature]:
                        agrees[velocity * values[feature] > 0] += 1
    assert agrees[True] > 40
    assert agrees[False] < 0.2 * agrees[True]


def test_the_left_arm_of_a_boxer_who_faces_right_is_the_upper_one() -> None:
    agrees = Counter[bool]()
    with ez.make_vec("Atari/Boxing", frameskip=1) as venv:
        features = venv.single_observation_space.entities["Player"]
        for batch, *_ in play(venv, 2000):
            screen = venv.consoles[0].ale.getScreen()
            boxers = [batch.entities[name][0][0].tolist() for name in ("Player", "Enemy")]
            for (me, other), colour in zip((boxers, boxers[::-1]), (12, 0), strict=True):
                values = dict(zip(features, me, strict=True))
                if abs(values["left_arm"] - values["right_arm"]) < 0.7:
                    continue
                faces_right = other[0] > me[0]
                width, left = (round(values[name] * LENGTH) for name in ("width", "x"))
                left -= width // 2
                reached = slice(left + width - 8, left + width) if faces_right else slice(left, left + 8)
                middle = round(values["y"] * LENGTH)
                fist = np.nonzero(screen[middle - 23 : middle + 23, reached] == colour)[0]
                if len(fist):
                    upper = fist.mean() < 22.5
                    agrees[upper == ((values["left_arm"] > values["right_arm"]) is faces_right)] += 1
    assert agrees[True] > 100
    assert agrees[False] < 0.2 * agrees[True], agrees


def held(venv: Any, name: str) -> Any:
    """An action of the only lane."""
    return {"act": ez.RaggedArray.from_arrays([[venv.single_action_space["act"].choices.index(name)]])}


def test_every_brick_is_where_the_screen_shows_it() -> None:
    """Two bits of the memory are a brick. One byte can't be set from outside: the game writes it again."""
    with ez.make_vec("Atari/Breakout", frameskip=1, repeat_action_probability=0.0) as venv:
        venv.reset(seed=1)
        for _ in range(10):
            venv.step({})
        state, console = venv.get_state(), venv.consoles[0].ale
        gone = set()
        for byte in set(range(36)) - {5}:
            for pair in range(0, 8, 2):
                venv.set_state(state)
                console.setRAM(byte, int(console.getRAM()[byte]) & ~(3 << pair))
                batch, *_ = venv.step({})
                screen = console.getScreen()
                bricks = {(x, y) for x in range(8, 152, 8) for y in range(57, 93, 6) if screen[y + 2, x + 4]}
                assert {(left, top) for left, top, *_ in boxes(venv, batch, "Breakout")["Brick"]} == bricks
                gone |= {(x, y) for x in range(8, 152, 8) for y in range(57, 93, 6)} - bricks
        assert len(gone) > 100


def test_the_patrol_of_seaquest_is_what_the_screen_shows() -> None:
    appearance = {"Patrol": APPEARANCES["Seaquest"]["Patrol"]}
    with ez.make_vec("Atari/Seaquest", frameskip=2) as venv:
        venv.reset(seed=1)
        console, seen, absent = venv.consoles[0].ale, 0, 0
        for step in range(500):
            console.setRAM(60, 2)  # a later level
            console.setRAM(59, 3)  # lives
            batch, *_ = venv.step({})
            found = {"Patrol": boxes(venv, batch, "Seaquest")["Patrol"]}
            if step > 20:
                screen = console.getScreen()
                assert not differences([screen], appearance, [found], np.zeros_like(screen))
                seen += len(found["Patrol"])
                absent += not found["Patrol"]
        assert seen > 50 and absent > 50


def test_a_knock_out_is_a_hundred_points() -> None:
    with ez.make_vec("Atari/Boxing") as venv:
        for step, (_, rewards, terminated, info) in enumerate(play(venv, 1500)):
            if step == 50:
                venv.consoles[0].ale.setRAM(18, 0x98)
            if terminated[0]:
                assert rewards[0] > 0 and info["final_obs"].globals[0, 0] == 1
                return
    raise AssertionError("nobody was knocked out")


@pytest.mark.parametrize("game", ["Asterix", "Kangaroo", "Seaquest"])
def test_no_life_is_left_at_the_end(game: str) -> None:
    with ez.make_vec(f"Atari/{game}", frameskip=8) as venv:
        index = [*venv.game.status].index("lives")
        for _, _, terminated, info in play(venv, 3000):
            if terminated[0]:
                assert info["final_obs"].globals[0, index] == 0
                return
    raise AssertionError("no episode ended")


def test_everything_on_a_slope_moves_at_one_speed() -> None:
    """Also where the topmost object leaves, and the others take other places in the memory."""
    left = 0
    with ez.make_vec("Atari/Skiing", repeat_action_probability=0.0) as venv:
        venv.reset(seed=1)
        places = {name: APPEARANCES["Skiing"][name] for name in ("Flag", "Mogul", "Tree")}
        count = 0
        for _ in range(400):
            batch, *_ = venv.step({})
            speeds = []
            for name in places:
                features = venv.single_observation_space.entities[name]
                for row in batch.entities[name][0]:
                    values = dict(zip(features, row.tolist(), strict=True))
                    if 0.5 < values["y"] < 1.5:  # neither appears nor leaves
                        speeds.append(values["velocity_y"] * SPEED)
            assert not speeds or max(speeds) - min(speeds) <= 3, speeds
            now = sum(len(batch.entities[name][0]) for name in places)
            left, count = left + (now < count), now
    assert left > 10


def test_invaders_that_take_other_places_do_not_move() -> None:
    with ez.make_vec("Atari/SpaceInvaders", repeat_action_probability=0.0) as venv:
        venv.reset(seed=1)
        console, shifts, before = venv.consoles[0].ale, 0, 0
        for step in range(100):
            if step == 50:
                for row in range(6):
                    console.setRAM(18 + row, int(console.getRAM()[18 + row]) & ~1)
            batch, *_ = venv.step({})
            velocities = batch.entities["Invader"][0][:, 2] * SPEED
            assert np.abs(velocities).max(initial=0) < 15
            shifts += step > 0 and int(console.getRAM()[26]) - before == 16
            before = int(console.getRAM()[26])
    assert shifts


def test_long_steps_have_long_velocities() -> None:
    with ez.make_vec("Atari/Breakout", frameskip=10, repeat_action_probability=0.0) as venv:
        batch, _ = venv.reset(seed=1)
        x, fastest = batch.entities["Player"][0][0, 0], 0.0
        for step in range(20):
            batch, *_ = venv.step(held(venv, "LEFT" if step % 4 < 2 else "RIGHT"))
            now, _, _, _, velocity, _ = batch.entities["Player"][0][0].tolist()
            if step:
                assert velocity * SPEED == pytest.approx((now - x) * LENGTH, abs=1e-3)
            x, fastest = now, max(fastest, abs(velocity))
        assert fastest * SPEED > 48


@pytest.mark.full
def test_pills_of_each_maze_are_on_the_screen() -> None:
    """A maze is over once enough pills are eaten: their number is set in the memory."""
    colours = (74, 138, 8, 214)  # of the walls and pills
    with ez.make_vec("Atari/MsPacman", frameskip=8) as venv:
        batch, _ = venv.reset(seed=1)
        venv.action_space.seed(1)
        console, compared, eaten_before, since = venv.consoles[0].ale, set(), 0, 0
        for step in range(2000):
            if step % 3 == 0:
                action = venv.action_space.sample(mask=batch)
            console.setRAM(123, console.getRAM()[123] & 0xFC | 2)  # lives
            batch, *_ = venv.step(action)
            maze, eaten = venv.ram[0, 0], venv.ram[0, 119]
            since = 0 if eaten < eaten_before else since + 1
            eaten_before = eaten
            if since == 35:
                shown = islands(console.getScreen() == colours[maze], (4, 2))
                found = boxes(venv, batch, "MsPacman")["Pill"]
                assert not (shown & ~covered(found)).any()
                assert covered(found).sum() - shown.sum() <= 4 * 8  # some are behind her and the ghosts
                compared.add(int(maze))
            if since == 36:
                console.setRAM(119, 150)
            if len(compared) == 4:
                break
        assert len(compared) == 4


def test_ghosts_that_are_blue_can_be_eaten() -> None:
    seen = {True: 0, False: 0}
    with ez.make_vec("Atari/MsPacman", 4, frameskip=8) as venv:
        batch, _ = venv.reset(seed=3)
        venv.action_space.seed(3)
        for step in range(250):
            if step % 4 == 0:
                action = venv.action_space.sample(mask=batch)
            batch, *_ = venv.step(action)
            for console, ghosts in zip(venv.consoles, batch.entities["Ghost"], strict=True):
                screen = console.ale.getScreen()
                for x, y, *_, edible in ghosts:
                    left, top = round(float(x) * LENGTH) - 4, round(float(y) * LENGTH) - 5
                    pixels = screen[top : top + 10, max(0, left) : left + 8]
                    for colours, can_be_eaten in ((GHOSTS, False), (EDIBLE, True)):
                        if np.isin(pixels, colours).sum() > 30:  # else it flickers
                            assert bool(edible) is can_be_eaten
                            seen[can_be_eaten] += 1
    assert min(seen.values()) > 100, seen
