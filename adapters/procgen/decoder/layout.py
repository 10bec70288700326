"""Layout of a dump of Procgen's `get_state` (`SERIALIZE_VERSION` 0, procgen 0.10.7).

Little-endian and packed: an int, a bool or a float takes 4 bytes; a string is a length and its bytes; a
vector is a count and its items. A dump begins with the version and the game's name, continues with
`dump_fields`, and ends with 0xCAFECAFE. Random generators are long strings (std::mt19937 as decimal text),
which make everything after the first one unaligned.

The single numbers of a dump are given *slots*: columns of the table that the decoder fills, one row per
state. A vector gets one slot for its length and a fixed number of slots for its first items, zero where it is
shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 0
END_OF_DUMP = 0xCAFECAFE


@dataclass(frozen=True)
class DumpField:
    """One field of a dump; `slots` of a vector's items are kept.

    Kinds: single numbers ("int", "flag", "float", "loose"), of which a flag is 0 or 1 and a float is finite
    and below 1e9, while "loose" floats may hold whatever was in the engine's memory before the first step; an
    int and a string ("generator"); the map (int w, int h, int count, cells y * w + x with y upwards); vectors
    ("ints", "flags", "floats"); and lists of entity records: those of the game ("entities"), and other ones
    ("records").
    """

    name: str
    kind: str
    slots: int = 0

    @property
    def is_vector(self) -> bool:
        return self.kind in ("ints", "flags", "floats", "entities", "records")


def _fields(text: str) -> tuple[DumpField, ...]:
    """Fields from "kind: name name:slots ...; kind: ..."."""
    fields = []
    for group in text.split(";"):
        kind, names = group.split(":", 1)
        for name in names.split():
            name, _, slots = name.partition(":")
            fields.append(DumpField(name, kind.strip(), int(slots or 0)))
    return tuple(fields)


_BEFORE_TAIL = _fields(
    # the options, and which levels
    "int: paint_vel_info use_generated_assets use_monochrome_assets restrict_themes use_backgrounds"
    " center_agent debug_mode distribution_mode use_sequential_levels use_easy_jump plain_assets physics_mode"
    " grid_step level_seed_low level_seed_high game_type game_n; generator: level_seed_rand_gen rand_gen;"
    # the episode
    "float: reward; flag: done level_complete; int: action timeout current_level_seed prev_level_seed"
    " episodes_remaining episode_done last_reward_timer; loose: last_reward;"
    "int: default_action fixed_asset_seed cur_time is_waiting_for_step grid_size; entities: entities;"
    # movement and view
    "int: use_procgen_background background_index; loose: bg_tile_ratio bg_pct_x char_dim;"
    "int: last_move_action move_action special_action;"
    "loose: mixrate maxspeed max_jump action_vx action_vy action_vrot; float: center_x center_y;"
    "int: random_agent_start has_useful_vel_info step_rand_int; generator: asset_rand_gen;"
    # geometry
    "int: main_width main_height out_of_bounds_object;"
    "loose: unit view_dim x_off y_off; float: visibility; loose: min_visibility; map: grid"
)

#: The record of one entity: 31 numbers, 124 bytes. Positions in cells, velocities in cells per step.
ENTITY = _fields(
    "float: x y vx vy rx ry; int: type image_type image_theme render_z;"
    "flag: will_erase collides_with_entities; float: collision_margin rotation vrot; flag: is_reflected;"
    "int: fire_time spawn_time life_time expire_time; flag: use_abs_coords; float: friction;"
    "flag: smart_step avoids_collisions auto_erase;"
    "float: alpha health theta grow_rate alpha_decay climber_spawn_x"
)
ENTITY_BYTES = 4 * len(ENTITY)
ENTITY_FIELDS = {field.name: index for index, field in enumerate(ENTITY)}

TAILS: dict[str, tuple[DumpField, ...]] = {
    "bigfish": _fields("int: fish_eaten; float: r_inc"),
    "bossfight": _fields(
        "ints: attack_modes; int: last_fire_time time_to_swap invulnerable_duration vulnerable_duration"
        " num_rounds round_num round_health boss_vel_timeout curr_vel_timeout attack_mode player_laser_theme"
        " boss_laser_theme damaged_until_time; flag: shields_are_up barriers_moves_right;"
        "float: base_fire_prob boss_bullet_vel barrier_vel barrier_spawn_prob"
        " rand_pct rand_fire_pct rand_pct_x rand_pct_y"
    ),
    "caveflyer": (),
    "chaser": _fields(
        "ints: free_cells; flags: is_space_vec;"
        "int: eat_timeout egg_timeout eat_time total_enemies total_orbs orbs_collected maze_dim"
    ),
    "climber": _fields(
        "flag: has_support facing_right; int: coin_quota coins_collected wall_theme;"
        "float: gravity air_control"
    ),
    "coinrun": _fields(
        "float: last_agent_y; int: wall_theme; flag: has_support facing_right is_on_crate;"
        "float: gravity air_control"
    ),
    "dodgeball": _fields(
        "float: min_dim hard_min_dim ball_vscale ball_r; int: last_fire_time num_enemies enemy_fire_delay"
    ),
    "fruitbot": _fields("float: min_dim bullet_vscale; int: last_fire_time"),
    "heist": _fields("int: num_keys world_dim; flags: has_keys:3"),
    "jumper": _fields(
        "int: jump_count jump_delta jump_time; flag: has_support facing_right; int: wall_theme;"
        "float: compass_dim"
    ),
    "leaper": _fields(
        "int: bottom_road_y; floats: road_lane_speeds:5; int: bottom_water_y; floats: water_lane_speeds:5;"
        "int: goal_y"
    ),
    "maze": _fields("int: maze_dim world_dim"),
    "miner": _fields("int: diamonds_remaining"),
    "ninja": _fields(
        "flag: has_support facing_right; int: last_fire_time wall_theme;"
        "float: gravity air_control jump_charge jump_charge_inc"
    ),
    "plunder": _fields(
        "int: last_fire_time; flags: lane_directions:5 target_bools:6; ints: image_permutation:6;"
        "floats: lane_vels:5; int: num_lanes num_current_ship_types targets_hit target_quota;"
        "float: juice_left r_scale spawn_prob legend_r min_agent_x"
    ),
    "starpilot": _fields("records: spawners"),
}


def dump_fields(game: str) -> tuple[DumpField, ...]:
    """Everything between the game's name and the end mark."""
    return (*_BEFORE_TAIL, *TAILS[game])


def slot_table(game: str) -> dict[str, int]:
    """The slot of each number of a dump of `game`.

    A vector's length is "name.length", its items are "name.0", "name.1", ...; the map has "grid_width" and
    "grid_height".
    """
    names: list[str] = []
    for field in dump_fields(game):
        if field.is_vector:
            names += [f"{field.name}.length", *(f"{field.name}.{i}" for i in range(field.slots))]
        elif field.kind == "map":
            names += [f"{field.name}_width", f"{field.name}_height"]
        elif field.kind != "generator":
            names.append(field.name)
    return {name: slot for slot, name in enumerate(names)}
