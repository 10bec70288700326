"""`ListVectorEnv`: lanes, seeds, autoreset, infos, errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import entitize as ez
import gymnasium
import numpy as np
import pytest
from entitize.envs import batch_observations
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from facts import raises


class Counter(ez.EntityEnv):
    """Counts its steps and ends at `length`; its infos and its fate can be chosen."""

    def __init__(self, length: int = 3, fate: str = "", log: list[str] | None = None, name: str = "") -> None:
        self.length, self.fate, self.name = length, fate, name
        self.log = [] if log is None else log
        self.action_space = ez.EntityActionSpace({"Go": ez.Categorical(["on", "off"])}, optional=True)
        self.observation_space = ez.EntitySpace({"Clock": ["time", "luck"]}, self.action_space)

    def _reset(self, options: dict[str, Any]) -> ez.Observation:
        self.time = int(options.get("start", 0))
        self.luck = self.np_random.random()
        if self.fate == "reset":
            raise ValueError("no luck")
        return self._look()

    def _step(self, actions: dict[str, Any]) -> Any:
        self.time += 1
        self.log.append(f"{self.name} step")
        if self.fate == "step":
            raise ValueError("out of luck")
        over = self.time >= self.length
        return (
            self._look(),
            self.time,
            over and self.length % 2 == 1,
            over and self.length % 2 == 0,
            {"time": self.time},
        )

    def _look(self) -> ez.Observation:
        clocks = np.full((self.time + 1, 2), [self.time, self.luck])
        return ez.Observation(entities={"Clock": clocks}, actions={"Go": ez.actions.CategoricalMask()})

    def close(self) -> None:
        self.log.append(f"{self.name} closed")
        if self.fate == "close":
            raise OSError("stuck")


def test_lanes_are_stepped_as_single_environments_are() -> None:
    rng = np.random.default_rng(0)
    envs = ez.vector.ListVectorEnv([partial(ez.games.MineSweeper, max_steps=7)] * 3)
    singles = [ez.games.MineSweeper(max_steps=7) for _ in range(3)]
    batch, info = envs.reset(seed=5)
    expected = [env.reset(seed=5 + lane)[0] for lane, env in enumerate(singles)]
    assert info == {}
    for _ in range(30):
        assert batch.equals(batch_observations(envs.single_observation_space, expected))
        actions = ez.envs.sample_actions(envs.single_action_space, batch, rng)  # type: ignore[attr-defined]
        batch, rewards, terminated, truncated, info = envs.step(actions)
        finals = []
        for lane, env in enumerate(singles):
            expected[lane], *rest, _ = env.step({name: order[lane] for name, order in actions.items()})
            assert rest == [rewards[lane], terminated[lane], truncated[lane]]
            if rest[1] or rest[2]:
                finals.append(expected[lane])
                expected[lane], _ = env.reset()
        if finals:
            assert info["final_obs"].equals(batch_observations(envs.single_observation_space, finals))
            assert info["_final_obs"].tolist() == (terminated | truncated).tolist()
        else:
            assert "final_obs" not in info
    assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float32, bool, bool)


def test_each_lane_has_an_environment_of_its_own() -> None:
    game, cart = ez.games.MineSweeper(), gymnasium.make("CartPole-v1")
    with raises(ValueError, "MineSweeper", "new"):
        ez.vector.ListVectorEnv([lambda: game] * 2)
    with raises(ValueError, "CartPoleEnv", "new"):
        ez.make_vec(lambda: cart, num_envs=3)
    ez.make_vec(lambda: cart, num_envs=1)


def test_autoreset_and_infos_are_gymnasiums_same_step() -> None:
    lengths = (2, 3, 2)
    ours = ez.vector.ListVectorEnv([partial(Counter, length) for length in lengths])
    theirs = SyncVectorEnv([partial(Counter, length) for length in lengths], autoreset_mode="SameStep")
    ours.reset(seed=3)
    theirs.reset(seed=3)
    ours.action_space.seed(3)
    theirs.action_space.seed(3)
    for _ in range(5):
        batch, rewards, terminated, truncated, info = ours.step(ours.action_space.sample())
        them = theirs.step(theirs.action_space.sample())
        assert [rows.tolist() for rows in batch.entities["Clock"]] == [
            r.tolist() for r in them[0]["entities"]["Clock"]
        ]
        assert rewards.tolist() == them[1].tolist()
        assert (terminated.tolist(), truncated.tolist()) == (them[2].tolist(), them[3].tolist())
        assert info.keys() == them[4].keys()
        for key in info.keys() - {"final_obs"}:
            assert repr(info[key]) == repr(them[4][key]), key
        if "final_obs" in info:
            finals = [o["entities"]["Clock"].tolist() for o in them[4]["final_obs"] if o is not None]
            assert [rows.tolist() for rows in info["final_obs"].entities["Clock"]] == finals


def test_last_infos_are_kept_where_an_environment_changes_them_in_its_reset() -> None:
    class Reusing(gymnasium.Wrapper[Any, Any, Any, Any]):
        def __init__(self, length: int) -> None:
            super().__init__(Counter(length))
            self.info: dict[str, Any] = {"n": 0, "sums": np.zeros(1), "own": {"log": []}}

        def reset(self, **options: Any) -> Any:
            self.info["n"] = 0
            self.info["sums"][:] = 0
            self.info["own"]["log"].clear()
            return super().reset(**options)[0], self.info

        def step(self, action: Any) -> Any:
            self.info["n"] += 1
            self.info["sums"] += 1
            self.info["own"]["log"].append(self.info["n"])
            return *super().step(action)[:4], self.info

    with ez.vector.ListVectorEnv([partial(Reusing, length) for length in (2, 3)]) as venv:
        venv.reset(seed=1)
        for _ in range(2):
            *_, info = venv.step({})
    assert info["n"].tolist() == [0, 2]
    final = info["final_info"]
    assert (final["n"][0], final["sums"][0, 0], final["own"]["log"][0]) == (2, 2, [1, 2])


@pytest.mark.parametrize("seed", [[4, 4, 7], (4, 4, 7)])
def test_seeds_may_be_given_per_lane(seed: Any) -> None:
    envs = ez.vector.ListVectorEnv([Counter] * 3)
    luck = envs.reset(seed=seed)[0].entities["Clock"].values[:, 1]
    assert luck[0] == luck[1] != luck[2]
    assert luck[0] == envs.reset(seed=4)[0].entities["Clock"].values[0, 1]
    with raises(ValueError, "2 seeds", "3 envs"):
        envs.reset(seed=[1, 2])


def test_without_a_seed_the_random_numbers_go_on() -> None:
    envs = ez.vector.ListVectorEnv([Counter] * 2)
    first = envs.reset(seed=1)[0].entities["Clock"].values[:, 1]
    assert not set(first) & set(envs.reset()[0].entities["Clock"].values[:, 1])


@pytest.mark.parametrize("options", [[{"start": 1}, {"start": 2}], [], "start", 3, [("start", 1)]])
@pytest.mark.parametrize("is_fresh", [True, False])
def test_options_that_are_no_dict_are_refused_before_a_lane_moves(options: Any, is_fresh: bool) -> None:
    venv = ez.vector.ListVectorEnv([Counter] * 2)
    if not is_fresh:
        venv.reset(seed=0)
    with raises(TypeError, "ListVectorEnv", "reset", "options", "a dict", type(options).__name__):
        venv.reset(seed=1, options=options)
    if not is_fresh:  # the episodes go on
        batch = venv.step(venv.action_space.sample())[0]
        assert batch.entities["Clock"].lengths.tolist() == [2, 2]
    batch, _ = venv.reset(seed=1, options={"start": 1})
    assert batch.entities["Clock"].lengths.tolist() == [2, 2]


def test_options_go_to_every_lane() -> None:
    batch, _ = ez.vector.ListVectorEnv([Counter] * 2).reset(options={"start": 2})
    assert batch.entities["Clock"].lengths.tolist() == [3, 3]


def test_an_illegal_action_moves_no_lane() -> None:
    log: list[str] = []
    envs = ez.vector.ListVectorEnv([partial(Counter, log=log)] * 2)
    envs.reset(seed=0)
    wrong = {"Go": ez.RaggedArray.from_arrays([[0], [2]], dtype=np.int64)}
    with raises(ez.ActionError, "env 1", "action 'Go'", "actor 0 (Clock 0)", "choice 2"):
        envs.step(wrong)
    assert log == []
    assert envs.step({"Go": ez.RaggedArray.from_arrays([[0], [1]], dtype=np.int64)})[1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("fate", "use", "facts"),
    [
        ("reset", lambda envs: envs.reset(), ("reset", "no luck")),
        (
            "step",
            lambda envs: (envs.reset(), envs.step({})),
            ("step", "out of luck"),
        ),
    ],
)
def test_an_environment_that_raises_is_named_and_all_are_closed(
    fate: str, use: Callable[[Any], Any], facts: tuple[str, ...]
) -> None:
    log: list[str] = []
    envs = ez.vector.ListVectorEnv(
        [partial(Counter, log=log, name="a"), partial(Counter, fate=fate, log=log, name="b")]
    )
    with raises(ez.WorkerError, "env 1 (Counter)", "ValueError", *facts) as caught:
        use(envs)
    assert caught.value.env_indices == (1,)
    assert isinstance(caught.value.__cause__, ValueError)
    assert sorted(line for line in log if "closed" in line) == ["a closed", "b closed"]
    for call in (envs.reset, lambda: envs.step({})):
        with raises(gymnasium.error.ClosedEnvironmentError, "ListVectorEnv", "closed"):
            call()  # type: ignore[operator]
    envs.close()
    assert len([line for line in log if "closed" in line]) == 2


def test_an_environment_that_cannot_be_made_is_named_and_the_others_are_closed() -> None:
    log: list[str] = []
    with raises(ez.WorkerError, "env 1", "ZeroDivisionError", "made"):
        ez.vector.ListVectorEnv([partial(Counter, log=log, name="a"), lambda: 1 // 0])  # type: ignore[list-item]
    assert log == ["a closed"]


def test_lanes_must_be_entity_environments_with_the_same_spaces() -> None:
    with raises(ez.WorkerError, "env 0 (CartPoleEnv)", "EntitySpace"):
        ez.vector.ListVectorEnv([partial(gymnasium.make, "CartPole-v1")])
    with raises(ez.WorkerError, "env 0", "env_fn", "gymnasium.Env", "'env'"):
        ez.vector.ListVectorEnv([lambda: "env"])  # type: ignore[list-item, return-value]
    with raises(ez.WorkerError, "env 1 (MineSweeper)", "env 0"):
        ez.vector.ListVectorEnv([Counter, ez.games.MineSweeper])
    with raises(ValueError, "one env_fn"):
        ez.vector.ListVectorEnv([])


def test_close_closes_every_lane_once_even_if_one_raises() -> None:
    log: list[str] = []
    envs = ez.vector.ListVectorEnv(
        [partial(Counter, log=log, name="a", fate="close"), partial(Counter, log=log, name="b")]
    )
    with raises(OSError, "stuck"):
        envs.close()
    assert sorted(log) == ["a closed", "b closed"]


def test_a_step_before_reset_needs_a_reset() -> None:
    with (
        ez.vector.ListVectorEnv([Counter]) as envs,
        raises(gymnasium.error.ResetNeeded, "reset"),
    ):
        envs.step({})


def test_it_is_a_gymnasium_vector_environment() -> None:
    envs = ez.vector.ListVectorEnv([partial(ez.games.MineSweeper, render_mode="rgb_array")] * 2)
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    assert envs.unwrapped is envs
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert envs.metadata["render_modes"] == ["rgb_array"]
    assert envs.render_mode == "rgb_array"
    batch, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    assert batch in envs.observation_space
    assert envs.action_space.sample(mask=batch) in envs.action_space
    frames = envs.render()
    assert frames is not None
    assert [np.shape(frame) for frame in frames] == [(96, 112, 3)] * 2
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    wrapped.reset(seed=0)
    envs.action_space.seed(0)
    ended = False
    while not ended:
        batch, _, terminated, truncated, info = wrapped.step(envs.action_space.sample(mask=batch))  # type: ignore[arg-type]
        ended = bool((terminated | truncated).any())
    assert "episode" in info
    wrapped.close()
    assert envs.closed


class Reused(gymnasium.Env[Any, Any]):
    """Writes every observation into the same array."""

    action_space = ez.EntityActionSpace({"go": ez.GlobalCategorical(["on"])})
    observation_space = ez.EntitySpace({"Clock": ["time"]}, action_space)

    def __init__(self) -> None:
        self.clock = np.zeros((1, 1), np.float32)
        self.shown = {"entities": {"Clock": self.clock}, "actions": {"go": {"mask": np.ones((1, 1), bool)}}}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.clock[:] = 0
        return self.shown, {}

    def step(self, action: Any) -> Any:
        self.clock += 1
        return self.shown, 0.0, self.clock[0, 0] == 2, False, {}


def test_last_observations_are_kept_from_a_reset_that_writes_into_their_arrays() -> None:
    venv = ez.vector.ListVectorEnv([Reused, Reused])
    batch, _ = venv.reset()
    for _ in range(2):
        batch, _, terminated, _, info = venv.step(venv.action_space.sample(mask=batch))
    assert terminated.all() and (batch.entities["Clock"].values == 0).all()
    assert (info["final_obs"].entities["Clock"].values == 2).all()


def test_rendering_needs_a_render_mode() -> None:
    with raises(ValueError, "ListVectorEnv", "render_mode"):
        ez.vector.ListVectorEnv([Counter]).render()


def test_infos_are_merged_as_gymnasium_does_and_ragged_arrays_are_kept() -> None:
    lanes: dict[int, dict[str, Any]] = {
        0: {"score": 1, "deep": {"x": 0.5}, "rows": np.zeros(2), "name": "a", "done": True},
        2: {"score": 3, "deep": {"y": 1}, "rows": np.ones(2), "late": np.int32(4)},
    }
    theirs: dict[str, Any] = {}
    for lane, info in lanes.items():
        theirs = SyncVectorEnv([Counter] * 3)._add_info(theirs, info, lane)
    ours = ez.vector.merge_infos(lanes, 3)
    assert repr(ours) == repr(theirs)
    ragged = ez.vector.merge_infos({0: {"rows": np.zeros(2)}, 1: {"rows": np.zeros(3)}}, 3)
    assert ragged["rows"].dtype == object
    assert [None if row is None else row.shape for row in ragged["rows"]] == [(2,), (3,), None]
    assert ragged["_rows"].tolist() == [True, True, False]
    assert ez.vector.merge_infos({0: {"x": 1}, 1: {"x": 0.5}}, 2)["x"].tolist() == [1, 0.5]
