"""`GameView.observe_all`: all agents at once are the agents one by one."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import entitize as ez
import numpy as np
import pettingzoo
import pytest
from entitize import RaggedArray
from entitize.adapters.pettingzoo.game_view import GameObservations
from entitize.adapters.pettingzoo.games import MagentView, find_view
from entitize.adapters.pettingzoo.games.mpe import MpeView
from entitize.envs import sample_actions

from facts import raises

MAGENT = {
    "battle_v4": {"map_size": 16, "max_cycles": 40},
    "combined_arms_v6": {"map_size": 16, "max_cycles": 20},
    "adversarial_pursuit_v4": {"map_size": 20, "max_cycles": 20},
    "tiger_deer_v4": {"map_size": 20, "max_cycles": 30},
    "gather_v5": {"max_cycles": 4},
}
MPE: dict[str, dict[str, Any]] = {
    "collect_treasure_v1": {},
    "simple_adversary_v3": {"num_agent_neighbors": 1, "num_landmark_neighbors": 1},
    "simple_crypto_v3": {},
    "simple_formation_v1": {},
    "simple_reference_v3": {},
    "simple_speaker_listener_v4": {},
    "simple_tag_v3": {"num_agent_neighbors": 2},
    "simple_world_comm_v3": {},
}


def make(name: str) -> Any:
    if name == "pursuit_v5":
        return pettingzoo.make("parallel", "sisl/pursuit-v5", n_pursuers=9, n_evaders=12, obs_range=5)
    package = "mpe2" if name in MPE else "magent2.environments"
    return importlib.import_module(f"{package}.{name}").parallel_env(**{**MAGENT, **MPE}[name])


@pytest.mark.parametrize("name", [*MAGENT, *MPE, "pursuit_v5"])
def test_all_agents_at_once_are_the_agents_one_by_one(name: str) -> None:
    env, rng = make(name), np.random.default_rng(1)
    env.reset(seed=2)
    kind = find_view(env.unwrapped)
    assert kind is not None
    view = kind(env.unwrapped)
    for _ in range(10):
        some = list(rng.permutation(env.agents)[:7])
        for agents in (list(env.agents), some, []):
            whole = view.observe_all(agents)
            assert whole is not None and list(whole.entities) == list(view.entities)
            for lane, agent in enumerate(agents if len(agents) < 60 else agents[::9]):
                lane = lane if len(agents) < 60 else 9 * lane
                seen, ids = view.observe(agent), []
                np.testing.assert_array_equal(whole.globals[lane], seen.globals)
                for kind_name, rows in seen.entities.items():
                    np.testing.assert_array_equal(whole.entities[kind_name][lane], rows)
                    ids += seen.ids.get(kind_name, [None] * len(rows))
                assert ids[whole.own[lane]] == agent
        if not env.agents:
            break
        env.step({agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents})


@pytest.mark.parametrize("name", ["battle_v4", "adversarial_pursuit_v4", "simple_world_comm_v3"])
def test_lanes_do_not_depend_on_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    venvs = [ez.from_pettingzoo(partial(make, name), num_envs=2) for _ in range(2)]
    results = []
    for index, venv in enumerate(venvs):
        if index == 1:
            for kind in (MagentView, MpeView):
                monkeypatch.setattr(kind, "observe_all", ez.pettingzoo.GameView.observe_all)
        batch, _ = venv.reset(seed=3)
        rng, steps = np.random.default_rng(4), [(batch, None, None, None)]
        for _ in range(50):
            orders = sample_actions(venv.single_action_space, batch, rng)
            batch, rewards, terminated, truncated, info = venv.step(orders)
            steps.append((batch, rewards, terminated | truncated, info["inactive"]))
        results.append(steps)
        venv.close()
    ended = 0
    for one, other in zip(*results, strict=True):
        assert one[0].equals(other[0])
        for mine, yours in zip(one[1:], other[1:], strict=True):
            np.testing.assert_array_equal(mine, yours)
        ended += 0 if one[2] is None else int(one[2].sum())
    assert ended > 0


class Broken(MagentView):
    """Observes something that it may not."""

    fault = ""

    def observe_all(self, agents: Any) -> GameObservations:
        seen = super().observe_all(agents)
        if self.fault == "nan":
            seen.entities["Soldier"].values[-1, 2] = np.nan
        elif self.fault == "type":
            seen.entities["Knight"] = seen.entities.pop("Soldier")
        elif self.fault == "shape":
            seen.entities["Wall"] = RaggedArray.empty(len(agents), (3,))
        elif self.fault == "own":
            seen.own[1] = -1
        return seen


@pytest.mark.parametrize(
    ("fault", "facts"),
    [
        ("nan", ["game 0", "'blue_", "'hp'", "'Soldier'", "nan"]),
        ("type", ["game 0", "'Soldier'", "'Knight'"]),
        ("shape", ["game 0", "'Wall'", "(3,)"]),
        ("own", ["game 0", "'red_1'", "an entity of the agent"]),
    ],
)
def test_what_it_returns_is_checked(fault: str, facts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    venv = ez.from_pettingzoo(partial(make, "battle_v4"), view=Broken)
    monkeypatch.setattr(Broken, "fault", fault)
    with raises(ez.errors.ObservationError, *facts):
        venv.reset(seed=1)
    venv.close()
