"""`check_entity_env` over every adapter and every built-in game: the one place where a game is only checked.

Games are found by themselves: one that is registered is checked alone, in its own vector environment and in a
list; those of several agents wherever they are among the games. Each game is checked once for each way to
make it and each set of options: other files test what a game does.
"""

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import pettingzoo
import pytest
from entitize.envs import games
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from magent2.environments import battle_v4, tiger_deer_v4
from mpe2 import simple_crypto_v3, simple_speaker_listener_v4, simple_tag_v3, simple_world_comm_v3
from pettingzoo.utils import parallel_to_aec

from peers import REAL, SLOW, make

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Box2D's bindings, at their first import
    import Box2D as Box2D

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:.*freesansbold", "ignore:.*never had an actor"
)
views = ez.views
each_game = pytest.mark.parametrize("game", games.GAMES)


def check(make: Callable[[], Any], steps: int = 25) -> None:
    env = make()
    try:
        ez.check_entity_env(env, steps)
    finally:
        env.close()


# -- built-in games ------------------------------------------------------------------------------------------


#: Games with the options under which they are checked, besides the defaults.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("CherryPick", {"num_cherries": 3}),
    ("Count", {"masked_choices": 1}),
    ("MaskedBandit", {"num_arms": 30}),
    ("MineSweeper", {"max_steps": 9, "cooldown_period": 1}),
    ("MineSweeper", {"max_steps": 6, "cooldown_period": 0, "render_mode": "rgb_array"}),
    ("MineSweeper", {"orbital_cannon": False}),
    ("Minefield", {"max_steps": 15, "width": 60.0, "render_mode": "rgb_array"}),
    ("MoveToOrigin", {"max_steps": 6}),
    ("MultiSnake", {"num_snakes": 1, "board_size": 3, "max_snake_length": 3, "max_steps": 8}),
    ("MultiSnake", {"num_snakes": 8, "max_steps": 12}),
    ("MultiSnake/lanes", {"num_snakes": 3, "board_size": 4, "max_snake_length": 3, "max_steps": 9}),
    ("PickMatchingBalls", {"max_balls": 5, "one_hot": True, "randomize": True}),
    ("RockPaperScissors", {"cheat": True}),
    ("TreasureHunt", {"max_steps": 7}),
    ("Xor", {"answer": "actor", "negate": True}),
]
GAMES = [*((game, {}) for game in games.GAMES), *VARIANTS]
SINGLE = [(game, options) for game, options in GAMES if "/" not in game]
STEPS = 40


def name_of(case: Any) -> str:
    """The id of a parameter: a game, or its options."""
    return case if isinstance(case, str) else ",".join(f"{key}={value}" for key, value in case.items())


@pytest.mark.parametrize(("game", "options"), SINGLE, ids=name_of)
def test_a_game_keeps_the_rules(game: str, options: dict[str, Any]) -> None:
    """Defaults with Gymnasium's wrappers around them, variants without."""
    env = gymnasium.make(f"entitize/{game}-v0", **options)
    check(lambda: env.unwrapped if options else env, STEPS)


@pytest.mark.parametrize(("game", "options"), GAMES, ids=name_of)
def test_a_games_vector_environment_keeps_the_rules(game: str, options: dict[str, Any]) -> None:
    check(partial(ez.make_vec, game, num_envs=6 if "/" in game else 3, **options), STEPS)


@each_game
def test_gymnasium_makes_the_same_vector_environment(game: str) -> None:
    with ez.make_vec(game, 2) as ours, gymnasium.make_vec(f"entitize/{game}-v0", num_envs=2) as theirs:
        assert type(ours) is type(theirs)
        assert ours.single_observation_space == theirs.single_observation_space


@each_game
def test_a_game_in_a_list_keeps_the_rules(game: str) -> None:
    check(partial(ez.vector.ListVectorEnv, [partial(gymnasium.make, f"entitize/{game}-v0")] * 2))


@pytest.mark.parametrize("game", ["MineSweeper", "Xor"])
def test_games_in_processes_keep_the_rules(game: str) -> None:
    lanes = [partial(gymnasium.make, f"entitize/{game}-v0")] * 2
    check(partial(ez.vector.ProcessVectorEnv, lanes, num_workers=1), 10)


def test_games_of_several_agents_keep_the_rules() -> None:
    modules = [
        importlib.import_module(m.name) for m in pkgutil.walk_packages(games.__path__, f"{games.__name__}.")
    ]
    classes = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    found = [
        kind
        for kind in classes
        if issubclass(kind, ez.pettingzoo.MultiAgentEnv) and not inspect.isabstract(kind)
    ]
    assert ez.games.MultiSnakeAgents in found
    for kind in found:
        ez.pettingzoo.check_multi_agent_env(kind, 25)


# -- adapters ------------------------------------------------------------------------------------------------


def positions(observation: Any) -> dict[str, Any]:
    return {"Cart": observation[None, :2], "Pole": observation[None, 2:]}


def from_microrts(num_envs: int, **options: Any) -> Any:
    return partial(ez.make_vec, "MicroRTS/basesWorkers8x8", num_envs, max_steps=30, **options)


def alone(**options: Any) -> Any:
    return lambda: (
        gymnasium.make("entitize/MicroRTS-v0", opponent="passiveAI", max_steps=25, **options).unwrapped
    )


CARTPOLE = partial(gymnasium.make, "CartPole-v1")
OPPONENTS = {"workerRushAI": 1, "lightRushAI": 1, "randomBiasedAI": 1}
TWO_MAPS = {"maps": ["basesWorkers8x8", "melee8x8Mixed6"], "opponents": "workerRushAI"}
SELFPLAY = {"selfplay": 2, "side": "both"}
FEW_FRAMES = {"max_num_frames_per_episode": 60}
#: Environments of each adapter by name, and how many steps to play; `make test` plays all of these.
EACH_ADAPTER: dict[str, tuple[Callable[[], Any], int]] = {
    "atari: vector": (partial(ez.make_vec, "Atari/Breakout", 2, **FEW_FRAMES), 25),
    "griddly: vector": (partial(ez.make_vec, "Griddly/Zelda", 3, max_steps=20), 50),
    "griddly: players": (partial(ez.make_vec, "Griddly/GriddlyRTS", 4, max_steps=20), 50),
    "gymnasium": (lambda: ez.wrap(CARTPOLE()), 25),
    "gymnasium: slices": (lambda: ez.wrap(CARTPOLE(), views.Vector({"Cart": 2, "Pole": 2})), 25),
    "gymnasium: a function": (
        lambda: ez.wrap(
            CARTPOLE(), views.Function(positions, {"Cart": ["x", "v"], "Pole": ["angle", "spin"]})
        ),
        25,
    ),
    "gymnasium: a time limit": (
        lambda: gymnasium.wrappers.TimeLimit(ez.wrap(gymnasium.make("CliffWalking-v1")), 7),
        25,
    ),
    "gymnasium: next step": (
        lambda: ez.wrap_vec(SyncVectorEnv([CARTPOLE] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)),
        25,
    ),
    "gymnasium: same step": (
        lambda: ez.wrap_vec(SyncVectorEnv([CARTPOLE] * 3, autoreset_mode=AutoresetMode.SAME_STEP)),
        25,
    ),
    "gymnasium: native vector": (
        lambda: ez.wrap_vec(
            gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="vector_entry_point")
        ),
        30,
    ),
    "microrts: vector": (from_microrts(5, opponents=OPPONENTS, **SELFPLAY), 65),
    "pettingzoo: lanes": (lambda: ez.from_pettingzoo(simple_tag_v3.parallel_env(max_cycles=9)), 15),
    "pettingzoo: team": (lambda: ez.from_pettingzoo(simple_tag_v3.parallel_env(max_cycles=9), "team"), 15),
    "procgen": (partial(gymnasium.make, "entitize/Procgen-bigfish-v0"), 60),
    "procgen: vector": (partial(ez.make_vec, "Procgen/bigfish", num_envs=3), 60),
    "vizdoom: vector": (partial(ez.make_vec, "ViZDoom/basic", 3, timeout=40), 40),
}
FURTHER: dict[str, tuple[Callable[[], Any], int]] = {
    "microrts": (alone(), 40),
    "microrts: planes": (alone(features="planes29"), 40),
    "atari": (lambda: gymnasium.make("entitize/Atari-v0", game="Pong", **FEW_FRAMES).unwrapped, 25),
    "griddly": (lambda: gymnasium.make("entitize/Griddly-v0", max_steps=20).unwrapped, 40),
    "vizdoom": (lambda: gymnasium.make("entitize/ViZDoom-v0", timeout=40).unwrapped, 40),
    "microrts: targets": (alone(targets="entities"), 40),
    "microrts: vector of planes": (from_microrts(5, opponents=OPPONENTS, features="planes", **SELFPLAY), 65),
    "microrts: vector of targets": (from_microrts(5, targets="entities", **TWO_MAPS, **SELFPLAY), 50),
    "microrts: vector of targets and planes": (
        from_microrts(5, targets="entities", features="planes", **TWO_MAPS, **SELFPLAY),
        50,
    ),
    **{
        f"procgen: {game}{name}": (make(game), 60)
        for game in ("bossfight", "coinrun", "starpilot")
        for name, make in (
            ("", lambda game: partial(gymnasium.make, f"entitize/Procgen-{game}-v0")),
            (", vector", lambda game: partial(ez.make_vec, f"Procgen/{game}", num_envs=3)),
        )
    },
    "vizdoom: all objects, walls and deltas": (
        partial(ez.make_vec, "ViZDoom/deathmatch", 2, visible_only=False, effects=True, walls=True),
        30,
    ),
    "vizdoom: one button": (partial(ez.make_vec, "ViZDoom/take_cover", 2, actions="single"), 30),
}


@pytest.mark.parametrize("name", EACH_ADAPTER)
def test_each_adapter_keeps_the_rules(name: str) -> None:
    check(*EACH_ADAPTER[name])


@pytest.mark.parametrize("name", FURTHER)
def test_further_environments_keep_the_rules(name: str) -> None:
    check(*FURTHER[name])


@pytest.mark.parametrize("env_id", REAL)
def test_a_gymnasium_environment_needs_nothing_but_wrap(env_id: str) -> None:
    makers = [partial(make, env_id, **REAL[env_id])] * 2
    with ez.wrap_vec(SyncVectorEnv(makers)) as venv:
        ez.check_entity_env(venv, SLOW.get(env_id, 12))
        assert isinstance(venv, ez.EntityVectorEnv)
        alone = ez.wrap(makers[0]())
        assert alone.observation_space == venv.single_observation_space
        # MinAtar's metadata have no render_fps, which Gymnasium warns of; the slow ones take seconds to make.
        if env_id not in SLOW and not env_id.startswith("MinAtar"):
            ez.check_entity_env(alone, 12)
        alone.close()


@pytest.mark.parametrize(
    ("layout", "game", "options"),
    [
        # MineSweeper's ragged face takes sequences, which wrap does not know as actions.
        ("ragged", "Xor", {}),
        ("padded", "MineSweeper", {"maxima": 5}),
        ("flat", "MineSweeper", {"maxima": 5}),
    ],
)
def test_what_to_gymnasium_makes_keeps_the_rules_when_it_is_wrapped_again(
    layout: Any, game: str, options: Any
) -> None:
    check(lambda: ez.wrap(ez.to_gymnasium(gymnasium.make(f"entitize/{game}-v0"), layout, **options)), 8)


def test_ours_from_entity_gym_and_back_keeps_the_rules() -> None:
    pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    check(
        lambda: ez.from_entity_gym(
            lambda: ez.to_entity_gym(gymnasium.make("entitize/MineSweeper-v0"), seed=1)
        )
    )


# -- games of PettingZoo -------------------------------------------------------------------------------------

PARALLEL = partial(partial, pettingzoo.make, "parallel")
TURNS = partial(partial, pettingzoo.make, "aec")
KAZ = "butterfly/knights_archers_zombies-v11"
#: When zombies appear carries over from one game to the next: without them KAZ can repeat a game.
PEACE = {"spawn_delay": 10_000, "max_cycles": 8}
PETTINGZOO: dict[str, Callable[[], Any]] = {
    "battle": partial(battle_v4.parallel_env, map_size=12, max_cycles=9),
    "chess": TURNS("classic/chess-v6"),
    "connect_four": TURNS("classic/connect_four-v3"),
    "crypto": partial(simple_crypto_v3.parallel_env, max_cycles=5),
    "knights_archers_zombies": PARALLEL(KAZ, **PEACE),
    "knights_archers_zombies, turns": TURNS(KAZ, **PEACE),
    "knights_archers_zombies, vectors": PARALLEL(KAZ, obs_method="vector-sequence", **PEACE),
    "leduc_holdem": TURNS("classic/leduc_holdem-v4"),
    "multiwalker": PARALLEL("sisl/multiwalker-v9", max_cycles=30, n_walkers=2),
    "pursuit": PARALLEL("sisl/pursuit-v5", max_cycles=4, n_pursuers=3),
    "rock_paper_scissors": PARALLEL("classic/rps-v2"),
    "rock_paper_scissors, turns": TURNS("classic/rps-v2"),
    "speaker_listener": partial(simple_speaker_listener_v4.parallel_env, max_cycles=9),
    "tag": partial(simple_tag_v3.parallel_env, max_cycles=9),
    "tag, continuous": partial(simple_tag_v3.parallel_env, max_cycles=5, continuous_actions=True),
    "tag, turns": partial(simple_tag_v3.env, max_cycles=3),
    "tictactoe": TURNS("classic/tictactoe-v3"),
    "tiger_deer": partial(tiger_deer_v4.parallel_env, map_size=10, max_cycles=110),
    "world_comm": partial(simple_world_comm_v3.parallel_env, max_cycles=5),
    "world_comm, turns": partial(simple_world_comm_v3.env, max_cycles=6),
    "world_comm, parallel in turns": lambda: parallel_to_aec(simple_world_comm_v3.parallel_env(max_cycles=6)),
}
#: Games that Entitize has a view of its own for.
KNOWN = [
    *("battle", "chess", "connect_four", "crypto", "knights_archers_zombies"),
    *("knights_archers_zombies, turns", "pursuit", "tag, continuous", "tag, turns", "world_comm"),
]
#: Games whose agents the automatic view puts into a team, and games that it makes lanes of.
TEAMS = [
    *("connect_four", "knights_archers_zombies", "leduc_holdem", "speaker_listener", "tag"),
    *("tag, continuous", "tiger_deer", "world_comm", "world_comm, turns"),
]
LANES = [
    *("knights_archers_zombies, vectors", "pursuit", "multiwalker", "rock_paper_scissors", "tag"),
    *("tag, continuous", "speaker_listener", "world_comm", "tictactoe", "connect_four", "leduc_holdem"),
    *("rock_paper_scissors, turns", "world_comm, turns", "world_comm, parallel in turns"),
]


@pytest.mark.parametrize("mode", ["lanes", "team"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_game_of_pettingzoo_keeps_the_rules_by_its_own_view(name: str, mode: Any) -> None:
    check(lambda: ez.from_pettingzoo(PETTINGZOO[name](), mode), 14)


@pytest.mark.parametrize("name", LANES)
def test_lanes_of_games_of_pettingzoo_keep_the_rules(name: str) -> None:
    steps = 40 if name.endswith("turns") or name in ("tictactoe", "connect_four", "leduc_holdem") else 15
    check(lambda: ez.from_pettingzoo(PETTINGZOO[name], num_envs=2, view=views.auto), steps)


@pytest.mark.filterwarnings("ignore:.*sum to 0:UserWarning")  # of opponents as one team
@pytest.mark.parametrize("name", TEAMS)
def test_teams_of_games_of_pettingzoo_keep_the_rules(name: str) -> None:
    check(lambda: ez.from_pettingzoo(PETTINGZOO[name], "team", view=views.auto), 30)


@pytest.fixture(autouse=True)
def _old_names() -> Iterator[None]:
    """Gymnasium says so of environments of which there is a newer version."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*out of date.*")
        yield
