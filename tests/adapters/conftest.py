"""An independent, slow decoder of Procgen's state dumps, and dumps to try decoders on."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entitize.adapters.procgen import import_engine

GAMES = (
    "bigfish bossfight caveflyer chaser climber coinrun dodgeball fruitbot heist jumper leaper maze"
    " miner ninja plunder starpilot"
)
MODES = {
    mode: games.split()
    for mode, games in {
        "easy": GAMES,
        "hard": GAMES,
        "extreme": "chaser dodgeball leaper starpilot",
        "memory": "caveflyer dodgeball heist jumper maze miner",
    }.items()
}
GAME_MODES = sorted((game, mode) for mode, games in MODES.items() for game in games)

_HEADER = (
    "paint_vel_info use_generated_assets use_monochrome_assets restrict_themes use_backgrounds"
    " center_agent debug_mode distribution_mode use_sequential_levels use_easy_jump plain_assets"
    " physics_mode grid_step level_seed_low level_seed_high game_type game_n"
)
_STATUS = (
    "reward:f done level_complete action timeout current_level_seed prev_level_seed"
    " episodes_remaining episode_done last_reward_timer last_reward:f default_action fixed_asset_seed"
    " cur_time is_waiting_for_step"
)
_ENTITY = (
    "x:f y:f vx:f vy:f rx:f ry:f type image_type image_theme render_z will_erase"
    " collides_with_entities collision_margin:f rotation:f vrot:f is_reflected fire_time spawn_time"
    " life_time expire_time use_abs_coords friction:f smart_step avoids_collisions auto_erase alpha:f"
    " health:f theta:f grow_rate:f alpha_decay:f climber_spawn_x:f"
)
_BASE = (
    "use_procgen_background background_index bg_tile_ratio:f bg_pct_x:f char_dim:f last_move_action"
    " move_action special_action mixrate:f maxspeed:f max_jump:f action_vx:f action_vy:f action_vrot:f"
    " center_x:f center_y:f random_agent_start has_useful_vel_info step_rand_int"
)
_GEOMETRY = (
    "main_width main_height out_of_bounds_object unit:f view_dim:f x_off:f y_off:f visibility:f"
    " min_visibility:f"
)
#: A name is an int, "name:f" a float, "name:I" and "name:F" vectors of them, "name:E" a list of entities.
_TAILS = {
    "bigfish": "fish_eaten r_inc:f",
    "bossfight": "attack_modes:I last_fire_time time_to_swap invulnerable_duration"
    " vulnerable_duration num_rounds round_num round_health boss_vel_timeout"
    " curr_vel_timeout attack_mode player_laser_theme boss_laser_theme damaged_until_time"
    " shields_are_up barriers_moves_right base_fire_prob:f boss_bullet_vel:f"
    " barrier_vel:f barrier_spawn_prob:f rand_pct:f rand_fire_pct:f rand_pct_x:f"
    " rand_pct_y:f",
    "caveflyer": "",
    "chaser": "free_cells:I is_space_vec:I eat_timeout egg_timeout eat_time total_enemies total_orbs"
    " orbs_collected maze_dim",
    "climber": "has_support facing_right coin_quota coins_collected wall_theme gravity:f air_control:f",
    "coinrun": "last_agent_y:f wall_theme has_support facing_right is_on_crate gravity:f air_control:f",
    "dodgeball": "min_dim:f hard_min_dim:f ball_vscale:f ball_r:f last_fire_time num_enemies"
    " enemy_fire_delay",
    "fruitbot": "min_dim:f bullet_vscale:f last_fire_time",
    "heist": "num_keys world_dim has_keys:I",
    "jumper": "jump_count jump_delta jump_time has_support facing_right wall_theme compass_dim:f",
    "leaper": "bottom_road_y road_lane_speeds:F bottom_water_y water_lane_speeds:F goal_y",
    "maze": "maze_dim world_dim",
    "miner": "diamonds_remaining",
    "ninja": "has_support facing_right last_fire_time wall_theme gravity:f air_control:f"
    " jump_charge:f jump_charge_inc:f",
    "plunder": "last_fire_time lane_directions:I target_bools:I image_permutation:I lane_vels:F"
    " num_lanes num_current_ship_types targets_hit target_quota juice_left:f r_scale:f"
    " spawn_prob:f legend_r:f min_agent_x:f",
    "starpilot": "spawners:E",
}


@functools.cache
def _named(text: str) -> tuple[list[str], list[str]]:
    """The names of fields, and their kinds."""
    parts = [field.partition(":") for field in text.split()]
    return [name for name, _, _ in parts], [kind or "i" for _, _, kind in parts]


class _Reader:
    """Takes a dump apart from front to back."""

    def __init__(self, dump: bytes) -> None:
        self.dump = dump
        self.at = 0

    def number(self, kind: str = "i") -> Any:
        return self.numbers(kind)[0]

    def numbers(self, kinds: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + kinds, self.dump, self.at)
        self.at += struct.calcsize("<" + kinds)
        return values

    def string(self) -> bytes:
        length = self.number()
        self.at += length
        return self.dump[self.at - length : self.at]

    def fields(self, text: str) -> dict[str, Any]:
        names, kinds = _named(text)
        if set(kinds) <= {"i", "f"}:
            return dict(zip(names, self.numbers("".join(kinds)), strict=True))
        return {name: self._field(kind) for name, kind in zip(names, kinds, strict=True)}

    def _field(self, kind: str) -> Any:
        if kind in ("i", "f"):
            return self.number(kind)
        if kind == "E":
            return self.entities()
        return list(self.numbers(f"{self.number()}{kind.lower()}"))

    def entities(self) -> list[dict[str, Any]]:
        return [self.fields(_ENTITY) for _ in range(self.number())]


def decode_slowly(dump: bytes) -> dict[str, Any]:
    """Everything in a dump by name; fails unless the very last byte has been consumed.

    "game" is the game's name, "entities" a list of dicts, "grid" an int array (h, w) with y upwards,
    "generators" the three random generators' texts.
    """
    reader = _Reader(dump)
    assert reader.number() == 0
    state: dict[str, Any] = {"game": reader.string().decode(), **reader.fields(_HEADER)}
    generators = [(reader.number(), reader.string()) for _ in range(2)]
    state |= reader.fields(_STATUS) | {"grid_size": reader.number(), "entities": reader.entities()}
    state |= reader.fields(_BASE)
    generators.append((reader.number(), reader.string()))
    state |= reader.fields(_GEOMETRY)
    width, height = reader.number(), reader.number()
    cells = reader.numbers(f"{reader.number()}i")
    state |= {"grid": np.array(cells).reshape(height, width), "grid_width": width, "grid_height": height}
    state |= reader.fields(_TAILS[state["game"]])
    assert reader.number("I") == 0xCAFECAFE
    assert reader.at == len(dump)
    return state | {"generators": generators}


@functools.cache
def play(
    game: str, mode: str, num_snapshots: int = 8, lanes: int = 6, steps_between: int = 18
) -> tuple[bytes, ...]:
    """Dumps from random play that goes on for long with one action, so that the player gets somewhere."""
    env = import_engine()(
        num=lanes, env_name=game, distribution_mode=mode, rand_seed=11, num_threads=0, use_backgrounds=False
    )
    rng = np.random.default_rng(5)
    dumps = list(env.get_state())
    actions = rng.integers(0, 15, lanes)
    for step in range(num_snapshots * steps_between):
        actions = np.where(rng.random(lanes) < 0.25, rng.integers(0, 15, lanes), actions)
        env.act(actions.astype(np.int32))
        if (step + 1) % steps_between == 0:
            dumps += env.get_state()
    env.close()
    return tuple(dumps)


def cells_of_chunks(decoder: Any, rows: np.ndarray, scale: float = 0.1) -> dict[tuple[int, int], str | None]:
    """{(x, y): name of its tile, or None where no column is set} for every cell of a state's chunks."""
    chunk, names = decoder.chunk_size, decoder.tile_names
    cells: dict[tuple[int, int], str | None] = {}
    for row in rows:
        left, bottom = (round(float(centre) / scale - chunk / 2) for centre in row[:2])
        one_hot = row[-chunk * chunk * len(names) :].reshape(chunk, chunk, len(names))
        assert set(np.unique(one_hot)) <= {0, 1} and (one_hot.sum(-1) <= 1).all()
        for y in range(chunk):
            for x in range(chunk):
                assert (left + x, bottom + y) not in cells, "two chunks overlap"
                column = int(one_hot[y, x].argmax())
                cells[left + x, bottom + y] = names[column] if one_hot[y, x, column] else None
    return cells


@pytest.fixture(scope="session")
def cells_in() -> Callable[..., dict[tuple[int, int], str | None]]:
    return cells_of_chunks


@pytest.fixture(scope="session")
def is_in_sight() -> Callable[..., bool]:
    """Whether an entity is near enough to the height of the player for the game's default features."""

    def check(entity: dict[str, Any], state: dict[str, Any], sight: tuple[float, float]) -> bool:
        y = state["entities"][0]["y"]
        return entity["y"] + entity["ry"] > y - sight[0] and entity["y"] - entity["ry"] < y + sight[1]

    return check


@pytest.fixture(scope="session")
def slow_decode() -> Callable[[bytes], dict[str, Any]]:
    return functools.cache(decode_slowly)


@pytest.fixture(scope="session")
def dumps_of() -> Callable[..., tuple[bytes, ...]]:
    return play


@pytest.fixture(params=GAME_MODES, ids="-".join)
def game_mode(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture(params=MODES["easy"])
def game(request: pytest.FixtureRequest) -> str:
    return request.param
