"""Recorded play: what is written is what was played, and other tools read the same."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import entitize as ez
import gymnasium
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import torch
import yaml
from entitize.datasets import DatasetError, DatasetWriter, EntityDataset, Recorder
from entitize.envs import EntityBatch, inactive_lanes, sample_actions

from facts import raises
from recorded_steps import SPACES, assert_same, random_steps


@pytest.mark.parametrize("name", SPACES)
def test_what_was_written_is_read(name: str, tmp_path: Path) -> None:
    space = SPACES[name]
    pieces = [random_steps(space, count, seed) for seed, count in enumerate((5, 1, 17, 30))]
    with DatasetWriter(tmp_path / "plays", space, {"who": "a test"}, steps_per_part=20) as writer:
        for piece in pieces:
            writer.append(piece)
        assert len(writer) == 53
    dataset = EntityDataset(tmp_path / "plays")
    assert dataset.space == space and dataset.metadata["who"] == "a test"
    assert len(dataset) == 53 and dataset.num_parts == 2
    rows = iter(range(53))
    for piece in pieces:
        assert_same(dataset.gather([next(rows) for _ in range(len(piece))]), piece)
    # Any rows in any order, across files.
    wanted = np.random.default_rng(0).integers(0, 53, 200)
    firsts = np.cumsum([0, *map(len, pieces)])
    found = dataset.gather(wanted)
    for place, row in enumerate(wanted.tolist()):
        piece = int(np.searchsorted(firsts, row, side="right")) - 1
        assert_same(found.gather([place]), pieces[piece].gather([row - firsts[piece]]))
    assert len(dataset.gather([])) == len(found.gather([])) == 0
    for indices in (np.zeros(200, bool), [0.5]):
        with raises(IndexError, "Steps.gather", "integers", np.asarray(indices).dtype):
            found.gather(indices)
    idle = np.concatenate([p.final | p.inactive for p in pieces])
    np.testing.assert_array_equal(dataset.decisions, np.flatnonzero(~idle))


class Log(ez.EntityVectorEnv):
    """Keeps what passes through, step by step and lane by lane: an independent record."""

    def __init__(self, venv: ez.EntityVectorEnv) -> None:
        self.venv, self.num_envs, self.metadata = venv, venv.num_envs, venv.metadata
        self.single_observation_space = venv.single_observation_space
        self.single_action_space = venv.single_action_space
        self.rows: list[tuple[int, dict[str, Any], dict[str, Any], float, bool, bool, bool]] = []

    def _look(self, batch: ez.EntityBatch, lane: int) -> dict[str, Any]:
        return {
            name: (array[lane].tolist()) for name, array in batch.arrays().items() if name != "globals"
        } | {"globals": batch.globals[lane].tolist()}

    def reset(self, **kwargs: Any) -> Any:
        self._now, info = self.venv.reset(**kwargs)
        return self._now, info

    def step(self, actions: Any) -> Any:
        after, rewards, terminated, truncated, info = self.venv.step(actions)
        for lane in range(self.num_envs):
            chosen = {name: array[lane].tolist() for name, array in actions.items()}
            self.rows.append(
                (
                    lane,
                    self._look(self._now, lane),
                    chosen,
                    *(float(rewards[lane]), bool(terminated[lane]), bool(truncated[lane]), False),
                )
            )
        if "final_obs" in info:
            for place, lane in enumerate(np.flatnonzero(info["_final_obs"]).tolist()):
                nothing: dict[str, Any] = {name: [] for name in actions}
                seen = self._look(info["final_obs"], place)
                self.rows.append((lane, seen, nothing, 0.0, False, False, True))
        self._now = after
        return after, rewards, terminated, truncated, info


@pytest.mark.parametrize("game", ["MineSweeper", "MultiSnake", "MultiSnake/lanes", "Procgen/bigfish"])
def test_a_recording_is_what_was_played(game: str, tmp_path: Path) -> None:
    log = Log(ez.make_vec(game, num_envs=4))
    ez.record(log, None, tmp_path / "plays", steps=120, seed=5)
    dataset = EntityDataset(tmp_path / "plays")
    assert len(dataset) == len(log.rows)
    steps = dataset.gather(np.arange(len(dataset)))
    arrays = steps.observations.arrays()
    for row, (lane, seen, chosen, *outcome) in enumerate(log.rows):
        assert steps.lane[row] == lane
        assert {name: array[row].tolist() for name, array in arrays.items()} == seen
        assert {name: array[row].tolist() for name, array in steps.actions.items()} == chosen
        assert [
            *(steps.reward[row], steps.terminated[row], steps.truncated[row], steps.final[row])
        ] == outcome


def test_episodes_are_those_that_evaluation_counts(tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=4)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    played = ez.evaluate(policy, venv, episodes=7, seed=11)
    ez.record(venv, policy, tmp_path / "plays", episodes=7, seed=11)
    episodes = EntityDataset(tmp_path / "plays").episodes
    assert len(episodes) == 7 and all(episode.is_complete for episode in episodes)
    by_lane = sorted(episodes, key=lambda episode: (episode.lane, episode.number))
    assert [episode.lane for episode in by_lane] == played.lanes.tolist()
    np.testing.assert_allclose([e.total_reward for e in by_lane], played.returns, rtol=1e-6)
    steps = EntityDataset(tmp_path / "plays")
    lengths = [int((~steps.gather(e.rows).final).sum()) for e in by_lane]
    assert lengths == played.lengths.tolist()


def test_an_episode_with_a_gap_is_not_complete(tmp_path: Path) -> None:
    with Recorder(ez.make_vec("CherryPick", num_envs=4), tmp_path / "plays") as venv:
        batch, _ = venv.reset(seed=0)
        venv.action_space.seed(0)
        for step in range(40):
            venv.recorded = np.array([True, step != 2, step > 0, step < 2])
            batch, *_ = venv.step(venv.action_space.sample(mask=batch))
    episodes = EntityDataset(tmp_path / "plays").episodes
    assert [(e.lane, e.is_complete) for e in episodes[:4]] == [(0, True), (1, False), (2, False), (3, False)]
    assert len(episodes) > 4 and episodes[4].is_complete


def test_other_tools_read_the_files(tmp_path: Path) -> None:
    space = SPACES["every kind"]
    steps = random_steps(space, 40, 3)
    with DatasetWriter(tmp_path / "plays", space) as writer:
        writer.append(steps, [json.dumps({"score": n}) for n in range(40)])
    file = tmp_path / "plays" / "part-000000.arrow"
    units = [rows.tolist() for rows in steps.observations.entities["Unit"]]
    moves = [chosen.tolist() for chosen in steps.actions["Move"]]

    plays = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    assert json.loads(plays.schema.metadata[b"entitize"])["spaces"]["entities"]["Unit"] == [
        "x",
        "y",
        "health",
    ]
    frame = pandas.read_feather(file)
    assert [[list(row) for row in rows] for rows in frame["entities/Unit"]] == units
    lazy = polars.scan_ipc(file).select("choices/Move", "reward", "info").collect()
    assert lazy["choices/Move"].to_list() == moves
    assert lazy["reward"].to_list() == steps.reward.tolist()
    (found,) = duckdb.sql('select sum(len("entities/Unit")), sum(reward) from plays').fetchall()
    assert found[0] == steps.observations.entities["Unit"].num_items
    assert found[1] == pytest.approx(float(steps.reward.sum(dtype=np.float64)), rel=1e-5)


def test_steps_that_do_not_fit_add_nothing(tmp_path: Path) -> None:
    space = SPACES["every kind"]
    steps, longer = random_steps(space, 3, 0), random_steps(space, 4, 0)
    with DatasetWriter(tmp_path / "plays", space) as writer:
        writer.append(steps, ['{"score": 1}'] * 3)
        for name in steps.actions:
            with raises(ValueError, f"'{name}'", "3 steps", "4 steps"):
                writer.append(replace(steps, actions={**steps.actions, name: longer.actions[name]}))
        with raises(ValueError, "actions"):
            writer.append(replace(steps, actions={}))
        with raises(ValueError, "reward", 3, 4):
            writer.append(replace(steps, reward=longer.reward))
        with raises(ValueError, "infos", 3, 2):
            writer.append(steps, [None] * 2)
        assert len(writer) == 3
    dataset = EntityDataset(tmp_path / "plays")
    assert_same(dataset.gather([0, 1, 2]), steps)
    assert dataset.infos([2]) == [{"score": 1}]
    for row in (-1, 3):
        with raises(IndexError, row):
            dataset.infos([row])


def test_a_kill_loses_at_most_the_last_part(tmp_path: Path) -> None:
    space, path = SPACES["entities alone"], tmp_path / "plays"
    writer = DatasetWriter(path, space, steps_per_part=10)
    for seed in range(7):
        writer.append(random_steps(space, 4, seed))
    (path / "part-000002.arrow").write_bytes(b"half of a fi")  # of a part that is not listed yet
    dataset = EntityDataset(path)
    assert len(dataset) == 24 and dataset.num_parts == 2


def test_a_dataset_without_steps_has_no_decisions_and_no_episodes(tmp_path: Path) -> None:
    with Recorder(ez.make_vec("MineSweeper", num_envs=2), tmp_path / "plays") as venv:
        venv.reset(seed=0)
    dataset = EntityDataset(tmp_path / "plays")
    assert len(dataset) == 0 and len(dataset.decisions) == 0 and dataset.episodes == []
    assert dataset.column("final").dtype == bool
    with raises(ez.datasets.DatasetError, "no step"):
        ez.BehaviorCloning(ez.RogueNet(dataset.space, dataset.space.actions, d_model=8), dataset)


def test_a_recording_that_fails_at_once_may_be_repeated_in_its_folder(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=2)
    with raises(ValueError, "'click'"):
        ez.record(venv, lambda batch, rng: {"click": None}, tmp_path / "plays", steps=3)  # type: ignore[arg-type]
    assert not (tmp_path / "plays").exists()
    assert len(EntityDataset(ez.record(venv, None, tmp_path / "plays", steps=3))) >= 6


def test_environments_that_do_not_reset_in_the_last_step_are_refused(tmp_path: Path) -> None:
    native = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")
    with raises(ValueError, "Recorder", "SAME_STEP", "NEXT_STEP"):
        ez.record(ez.wrap_vec(native), None, tmp_path / "plays", steps=3)
    assert not (tmp_path / "plays").exists()


def test_recorded_self_play_goes_on_with_its_opponents(tmp_path: Path) -> None:
    for part, steps in (("first", 400), ("second", 800)):
        venv = ez.make_vec("MultiSnake/lanes", num_envs=2)
        policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
        pool = ez.self_play.OpponentPool(policy, folder=tmp_path / "run" / "opponents")
        games = ez.self_play.past_self_play(venv, pool, interval=100, seed=0)
        config = ez.PPOConfig(total_timesteps=steps, num_steps=16, minibatch_size=64)
        with Recorder(games, tmp_path / part) as recorder:
            trainer = ez.PPO(policy, recorder, config, tmp_path / "run", resume=part == "second")
            assert len(pool.past) == (4 if part == "second" else 0)
            trainer.train(progress=False)
    env = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["env"]
    assert env["id"] == "MultiSnake/lanes"


def test_a_recording_says_which_environments_make_vec_made(tmp_path: Path) -> None:
    with ez.make_vec("CartPole-v1", 2, view={"view": "Vector", "name": "Cart"}, max_episode_steps=9) as venv:
        ez.record(venv, None, tmp_path / "named", steps=3)
        ez.record(venv, None, tmp_path / "other", steps=3, metadata={"env": "mine"})
    found = EntityDataset(tmp_path / "named").metadata
    assert (found["env"], found["kwargs"]) == ("CartPole-v1", {"max_episode_steps": 9})
    with ez.make_vec(found["env"], found["num_envs"], view=found["view"], **found["kwargs"]) as again:
        assert ez.datasets.replay(EntityDataset(tmp_path / "named"), again) is None
    other = EntityDataset(tmp_path / "other").metadata
    assert other["env"] == "mine" and "kwargs" not in other
    with ez.make_vec(lambda: ez.make("CartPole-v1"), 2) as venv:
        ez.record(venv, None, tmp_path / "unnamed", steps=3)
    assert "env" not in EntityDataset(tmp_path / "unnamed").metadata


def test_a_recorder_takes_the_place_of_its_environment(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=4)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    with Recorder(venv, tmp_path / "plays", {"policy": "learning"}) as recorder:
        ez.PPO(policy, recorder, ez.PPOConfig(total_timesteps=128, num_steps=16)).train(progress=False)
    assert venv.closed
    dataset = EntityDataset(tmp_path / "plays")
    assert len(dataset.decisions) == 128 and dataset.metadata["policy"] == "learning"


def test_numbers_of_numpy_are_taken(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=2)
    seed, steps = np.int64(3), np.int32(5)
    ez.record(venv, None, tmp_path / "a", steps=steps, seed=seed, deterministic=np.False_)  # type: ignore[arg-type]
    dataset = EntityDataset(tmp_path / "a")
    assert dataset.metadata["seed"] == 3 and ez.datasets.replay(dataset, venv) is None


def test_the_seed_of_a_recording_with_a_teacher(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=2)

    def teacher(batch: EntityBatch, rng: np.random.Generator) -> Any:
        return sample_actions(venv.single_action_space, batch, rng)

    for wrong in (-1, 1.5, "3"):
        with raises(ValueError, "seed", wrong):
            ez.record(venv, None, tmp_path / "a", steps=3, seed=wrong, teacher=teacher)  # type: ignore[arg-type]
    for name in ("a", "b"):
        ez.record(venv, None, tmp_path / name, steps=9, seed=None, teacher=teacher)
    steps = [EntityDataset(tmp_path / name).gather(range(18)) for name in ("a", "b")]
    assert not steps[0].observations.equals(steps[1].observations)


def test_wrong_calls_are_named(tmp_path: Path) -> None:
    venv = ez.make_vec("MineSweeper", num_envs=2)
    with raises(TypeError, "episodes", "steps"):
        ez.record(venv, None, tmp_path / "a")
    with raises(ValueError, "episodes", 0):
        ez.record(venv, None, tmp_path / "a", episodes=0)
    other = ez.make_vec("CherryPick")
    net = ez.RogueNet(other.single_observation_space, other.single_action_space)
    with raises(ValueError, "record", "'Move'", "'Pick Cherry'"):
        ez.record(venv, net, tmp_path / "a", steps=1)
    with raises(TypeError, "policy", 3):
        ez.record(venv, 3, tmp_path / "a", steps=1)  # type: ignore[arg-type]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with raises(FileExistsError, tmp_path / "full"):
        ez.record(venv, None, tmp_path / "full", steps=1)
    with raises(ez.datasets.DatasetError, tmp_path / "full", "dataset.json"):
        EntityDataset(tmp_path / "full")
    with raises(ValueError, "steps_per_part", 0):
        DatasetWriter(tmp_path / "b", venv.single_observation_space, steps_per_part=0)
    with raises(TypeError, "metadata", "float32"):
        ez.record(venv, None, tmp_path / "b", steps=1, metadata={"skill": np.float32(0.5)})
    ez.record(venv, None, tmp_path / "c", steps=2)
    dataset = EntityDataset(tmp_path / "c")
    for read in (dataset.gather, dataset.infos):
        for rows in (0, [[0, 1]]):
            with raises(IndexError, "shape", np.shape(rows)):
                read(rows)
    with raises(IndexError, "whole numbers", "float64"):
        dataset.gather(np.array([0.5]))
    with raises(IndexError, len(dataset)):
        dataset.gather([len(dataset)])
    with raises(KeyError, "rewards", "reward"):
        dataset.column("rewards")


def test_a_teacher_s_actions_are_recorded_where_the_policy_gets_to(tmp_path: Path) -> None:
    def towards_more(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, ez.RaggedArray]:
        return {"move": batch.actions["move"].actors.with_values(np.full(len(batch), 3))}

    def back_and_forth(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, ez.RaggedArray]:
        return {"move": batch.actions["move"].actors.with_values(rng.integers(0, 2, len(batch)))}

    options: dict[str, Any] = {"steps": 30, "seed": 4}
    venv = ez.make_vec("TreasureHunt", num_envs=3)
    plain = EntityDataset(ez.record(venv, back_and_forth, tmp_path / "plain", **options))
    taught = EntityDataset(
        ez.record(venv, back_and_forth, tmp_path / "taught", teacher=towards_more, **options)
    )
    rows = np.arange(len(plain))
    done, labels = plain.gather(rows), taught.gather(rows)
    assert not done.final.all() and set(done.actions["move"].values.tolist()) == {0, 1}
    assert set(labels.actions["move"].values.tolist()) == {3}
    for name, array in done.observations.arrays().items():
        other = labels.observations.arrays()[name]
        assert np.array_equal(getattr(array, "values", array), getattr(other, "values", other)), name
    np.testing.assert_array_equal(done.reward, labels.reward)
    with pytest.raises(ez.datasets.DatasetError, match="teacher"):
        ez.datasets.replay(taught, venv)


def test_what_a_teacher_may_not_do_is_refused(tmp_path: Path) -> None:
    venv = ez.make_vec("TreasureHunt", num_envs=2)

    def wrong(batch: ez.EntityBatch, rng: np.random.Generator) -> dict[str, ez.RaggedArray]:
        return {"move": batch.actions["move"].actors.with_values(np.full(len(batch), 9))}

    with pytest.raises(ez.ActionError, match="move"):
        ez.record(venv, None, tmp_path / "plays", steps=3, teacher=wrong)
    assert not (tmp_path / "plays").exists()


def test_several_folders_are_read_as_one(tmp_path: Path) -> None:
    space = SPACES["every kind"]
    parts = [random_steps(space, count, seed) for seed, count in enumerate((40, 25))]
    for folder, steps in zip(("a", "b"), parts, strict=True):
        with DatasetWriter(tmp_path / folder, space, {"name": folder}, steps_per_part=16) as writer:
            writer.append(steps, [f'{{"from": "{folder}"}}'] * len(steps))
    first, second = EntityDataset(tmp_path / "a"), EntityDataset(tmp_path / "b")
    both = EntityDataset(tmp_path / "a", tmp_path / "b")
    assert (len(both), both.num_parts) == (len(first) + len(second), first.num_parts + second.num_parts)
    assert both.metadata["name"] == "a" and both.paths == [tmp_path / "a", tmp_path / "b"]
    rows = np.random.default_rng(0).permutation(len(both))
    mixed = both.gather(rows)
    expected = np.concatenate([parts[0].reward, parts[1].reward])
    np.testing.assert_array_equal(mixed.reward, expected[rows])
    numbers = np.concatenate([parts[0].episode, parts[1].episode + 1 + parts[0].episode.max()])
    np.testing.assert_array_equal(mixed.episode, numbers[rows])
    np.testing.assert_array_equal(both.column("episode"), numbers)
    assert [e.total_reward for e in both.episodes] == [
        e.total_reward for dataset in (first, second) for e in dataset.episodes
    ]
    assert both.infos([39, 40]) == [{"from": "a"}, {"from": "b"}]
    np.testing.assert_array_equal(second.column("episode"), parts[1].episode)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="counts open files as Linux does")
def test_a_dataset_may_have_more_files_than_a_process_may_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # takes seconds
    space = SPACES["entities alone"]
    steps = random_steps(space, 100, 0)
    with DatasetWriter(tmp_path / "plays", space, steps_per_part=1) as writer:
        for row in range(100):
            writer.append(steps.gather([row]))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        dataset = EntityDataset(tmp_path / "plays")
        assert_same(dataset.gather(np.arange(100)), steps)
        assert [len(part) for part in dataset] == [1] * 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_folders_of_different_views_are_not_read_together(tmp_path: Path) -> None:
    views = {"old": None, "a": {"view": "Vector"}, "b": {"view": "Rows"}}
    for name, view in views.items():
        metadata = {} if view is None else {"view": view}
        ez.record(ez.make_vec("Count", num_envs=1), None, tmp_path / name, steps=2, metadata=metadata)
    assert len(EntityDataset(tmp_path / "old", tmp_path / "a", tmp_path / "a").decisions) == 6
    with raises(DatasetError, tmp_path / "a", tmp_path / "b", "Vector", "Rows"):
        EntityDataset(tmp_path / "old", tmp_path / "a", tmp_path / "b")


def test_folders_of_different_spaces_are_not_read_together(tmp_path: Path) -> None:
    for name, space in SPACES.items():
        with DatasetWriter(tmp_path / name, space) as writer:
            writer.append(random_steps(space, 5, 0))
    with pytest.raises(ez.datasets.DatasetError, match="entities alone"):
        EntityDataset(tmp_path / "every kind", tmp_path / "entities alone")


def test_the_most_probable_actions_are_recorded_if_asked_for(tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=3)
    torch.manual_seed(0)
    net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    ez.record(venv, net, tmp_path / "plays", steps=20, seed=5, deterministic=True)
    dataset = EntityDataset(tmp_path / "plays")
    steps = dataset.gather(dataset.decisions)
    expected = net.act(steps.observations, np.random.default_rng(1), deterministic=True).actions["move"]
    drawn = net.act(steps.observations, np.random.default_rng(1)).actions["move"]
    assert steps.actions["move"] == expected != drawn


@pytest.mark.parametrize("mode", [False, True])
def test_networks_keep_the_mode_that_they_were_in(mode: bool, tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=2)
    nets = [
        ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1).train(mode)
        for _ in range(2)
    ]
    ez.record(venv, nets[0], tmp_path / "plays", steps=2, teacher=nets[1])
    assert [net.training for net in nets] == [mode] * 2


def test_a_recording_of_episodes_holds_their_steps_alone(tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=4)
    dataset = EntityDataset(ez.record(venv, None, tmp_path / "plays", episodes=9, seed=11))
    assert np.bincount([episode.lane for episode in dataset.episodes]).tolist() == [3, 2, 2, 2]
    assert sorted(row for episode in dataset.episodes for row in episode.rows) == list(range(len(dataset)))


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_recording_says_how_actions_were_chosen(deterministic: bool, tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake", num_envs=2)
    ez.record(
        venv, None, tmp_path / "plays", steps=2, seed=5, deterministic=deterministic, metadata={"who": "me"}
    )
    found = EntityDataset(tmp_path / "plays").metadata
    assert (found["deterministic"], found["seed"], found["who"]) == (deterministic, 5, "me")


def test_a_recording_says_which_lanes_had_to_wait(tmp_path: Path) -> None:
    inner = ez.make_vec("MultiSnake/lanes", num_envs=4, num_snakes=4, max_steps=15)
    expected = []
    with Recorder(inner, tmp_path / "plays") as venv:
        batch, info = venv.reset(seed=2)
        venv.action_space.seed(0)
        for _ in range(40):
            expected.append(inactive_lanes(info, 4))
            batch, *_, info = venv.step(venv.action_space.sample(mask=batch))
    dataset = EntityDataset(tmp_path / "plays")
    recorded = dataset.column("inactive")[~dataset.column("final").astype(bool)].astype(bool)
    assert 0 < recorded.sum() < len(recorded)
    np.testing.assert_array_equal(recorded, np.concatenate(expected))


@pytest.mark.parametrize("name", ["seed", "num_envs", "deterministic", "taught"])
def test_metadata_does_not_replace_what_the_recording_says(name: str, tmp_path: Path) -> None:
    with ez.make_vec("Xor", 2) as venv, raises(ValueError, "metadata", f"'{name}'"):
        ez.record(venv, None, tmp_path / "plays", steps=3, metadata={name: 42})
    assert not (tmp_path / "plays").exists()


def test_metadata_is_kept_as_json_has_it(tmp_path: Path) -> None:
    nested: list[object] = []
    for _ in range(70):
        nested = [nested]
    with ez.make_vec("Xor", 2) as venv:
        with raises(TypeError, "metadata", "deep"):
            ez.record(venv, None, tmp_path / "deep", steps=3, metadata={"config": nested})
        metadata = {"names": {0: "a", "0": "b"}, "pair": (1, 2)}
        ez.record(venv, None, tmp_path / "plays", steps=3, metadata=metadata)
    found = EntityDataset(tmp_path / "plays").metadata
    assert (found["names"], found["pair"]) == ({"0": "b"}, [1, 2])
