"""The pool: who is in it, who is drawn, what is remembered, and what a resumed run finds again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
from entitize.envs import EntityVectorEnv
from entitize.trainers import (
    PPO,
    CheckpointError,
    Opponent,
    OpponentPool,
    PPOConfig,
    checkpoint_paths,
    past_self_play,
    read_checkpoint,
    read_metrics,
)

from facts import raises, warns

OPTIONS: dict[str, Any] = {"num_steps": 6, "minibatch_size": 24, "update_epochs": 1, "learning_rate": 0.02}


def weights_of(policy: Any) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in policy.state_dict().values()])


def steps_of(pool: OpponentPool) -> list[int | None]:
    return [past.step for past in pool.past]


def folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


# -- members and draws -------------------------------------------------------------------------------------


def test_a_past_self_stays_as_the_learner_was(toy_policy: Any, make_toy_batch: Any) -> None:
    learner = toy_policy()
    pool = OpponentPool(learner)
    for parameter in learner.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = weights_of(learner)
    pool.add(0)
    with torch.no_grad():
        learner.paint += 1
    learner.update_normalization(make_toy_batch(np.random.default_rng(1), 4))
    past = pool.past[0].policy
    assert torch.equal(weights_of(past), before) and not torch.equal(weights_of(learner), before)
    assert all(p.grad is None and not p.requires_grad for p in past.parameters())
    assert all(p.grad is not None and p.requires_grad for p in learner.parameters())


def test_win_rates_are_weighted_games_with_one_more_at_a_half(toy_policy: Any) -> None:
    member = Opponent(0, toy_policy())
    assert member.win_rate == 0.5
    scores = np.random.default_rng(1).choice([0.0, 0.5, 1.0], 300, p=[0.1, 0.2, 0.7])
    for score in scores:
        member.record(score)
    ages = np.arange(300)[::-1]
    expected = (sum(s * 0.99**age for s, age in zip(scores, ages, strict=True)) + 0.5) / (
        sum(0.99**age for age in ages) + 1
    )
    assert member.win_rate == pytest.approx(expected)
    counts = [int((scores == score).sum()) for score in (1.0, 0.5, 0.0)]
    assert [member.wins, member.draws, member.losses] == counts and member.games == 300


@pytest.mark.parametrize(
    ("weighting", "weight"),
    [
        ("uniform", lambda win_rate: 1.0),
        ("hard", lambda win_rate: (1 - win_rate) ** 2),
        ("variance", lambda win_rate: win_rate * (1 - win_rate)),
    ],
)
def test_members_are_drawn_as_their_weights_say(toy_policy: Any, weighting: str, weight: Any) -> None:
    pool = OpponentPool(toy_policy(), weighting=weighting)
    for step, wins in enumerate((0, 4, 40)):
        pool.add(step)
        for game in range(40):
            pool.past[-1].record(float(game < wins))
    weights = [weight(member.win_rate) for member in pool.members]
    expected = np.array(weights) / sum(weights)
    np.testing.assert_allclose(pool.probabilities(), expected)
    rng = np.random.default_rng(2)
    drawn = np.bincount([pool.draw(rng).number for _ in range(3000)], minlength=3) / 3000
    np.testing.assert_allclose(drawn, expected, atol=0.035)


def test_an_empty_pool_has_nobody_to_draw(toy_policy: Any) -> None:
    with raises(ValueError, "opponent pool", "empty"):
        OpponentPool(toy_policy()).draw(np.random.default_rng(1))


def test_a_full_pool_stays_spread_over_the_history(toy_policy: Any) -> None:
    pool = OpponentPool(toy_policy(), max_size=5)
    for step in range(0, 1000, 10):
        before = steps_of(pool)
        evicted = pool.add(step)
        if len(before) < 5:
            assert not evicted
            continue
        ((left, heir),) = evicted
        times = [*before, step]
        place = times.index(left.step)
        gaps = [times[i + 1] - times[i - 1] for i in range(1, 5)]  # type: ignore[operator]
        assert 0 < place < 5 and gaps[place - 1] == min(gaps), "it is missed the least"
        assert steps_of(pool) == [t for t in times if t != left.step]
        assert heir.step == times[place + 1] and heir in pool.past
    steps = np.array(steps_of(pool), float)
    assert steps[0] == 0 and steps[-1] == 990
    assert np.diff(steps).max() < 0.55 * 990


def test_a_pool_that_became_smaller_is_thinned_at_once(toy_policy: Any) -> None:
    pool = OpponentPool(toy_policy(), max_size=6)
    for step in range(6):
        pool.add(step)
    pool.max_size = 3
    evicted = pool.add(6)
    assert len(evicted) == 4 and len(pool.past) == 3 and steps_of(pool)[0] == 0 and steps_of(pool)[-1] == 6
    assert not {left.step for left, _ in evicted} & set(steps_of(pool))


@pytest.mark.parametrize(("size", "kept"), [(1, [[0], [5], [9]]), (2, [[0], [0, 5], [0, 9]])])
def test_small_pools_keep_the_newest(toy_policy: Any, size: int, kept: list[list[int]]) -> None:
    pool = OpponentPool(toy_policy(), max_size=size)
    for step, expected in zip((0, 5, 9), kept, strict=True):
        pool.add(step)
        assert steps_of(pool) == expected


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"weighting": "soft"}, ["weighting", "'uniform', 'hard', 'variance'", "'soft'"]),
        ({"max_size": 1.5}, ["max_size", 1.5]),
        ({"max_size": 0}, ["max_size", "0 checkpoints"]),
        ({"max_size": 2, "checkpoints": ["a", "b"]}, ["max_size", "2 checkpoints"]),
        ({"checkpoints": "runs/a"}, ["checkpoints", "list", "'runs/a'"]),
        ({"checkpoints": ["nowhere"]}, ["checkpoint", "nowhere"]),
    ],
)
def test_wrong_options_are_told(toy_policy: Any, options: dict[str, Any], facts: list[object]) -> None:
    with raises(ValueError, *facts):
        OpponentPool(toy_policy(), **options)


def test_time_goes_on_in_a_pool(toy_policy: Any) -> None:
    pool = OpponentPool(toy_policy())
    pool.add(10)
    with raises(ValueError, "newest", "got 10"):
        pool.add(10)


# -- runs --------------------------------------------------------------------------------------------------


class Stateless(EntityVectorEnv):
    """Environments that can't save where they are."""

    def __init__(self, venv: Any) -> None:
        self.venv = venv
        self.num_envs, self.lane_games = venv.num_envs, venv.lane_games
        self.single_observation_space = venv.single_observation_space
        self.single_action_space = venv.single_action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.venv.reset(seed=seed, options=options)

    def step(self, actions: Any) -> Any:
        return self.venv.step(actions)


class Run:
    """A run in a folder, with a pool, for `total` steps."""

    def __init__(self, policy: Any, venv: Any, folder: Path, total: int, **options: Any) -> None:
        self.pool = OpponentPool(
            policy, folder=folder / "opponents", max_size=options.pop("max_size", 3), weighting="hard"
        )
        self.venv = past_self_play(venv, self.pool, latest_share=0.3, interval=20)
        config = PPOConfig(**OPTIONS, **{"total_timesteps": 200, "checkpoint_interval": 40} | options)
        self.trainer = PPO(policy, self.venv, config, folder, resume=(folder / "checkpoints").exists())
        self.trainer.callbacks.append(lambda trainer, _: trainer.step >= total)
        self.resumed_at = self.trainer.step
        self.state = self.venv.get_training_state()
        self.trainer.train()


@pytest.mark.parametrize("kind", ["environments that save their state", "new episodes at every checkpoint"])
def test_a_resumed_run_has_the_same_opponents_and_goes_on_in_the_same_way(
    kind: str, duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    stateful = kind.startswith("environments")

    def make() -> Any:
        return duels(4) if stateful else Stateless(duels(4))

    options = {} if stateful else {"reset_at_checkpoint": True, "checkpoint_interval": 30}
    whole = Run(toy_policy(), make(), tmp_path / "whole", 200, **options)
    first = Run(toy_policy(), make(), tmp_path / "parts", 90, **options)
    saved = first.venv.get_training_state()
    torch.manual_seed(99)
    parts = Run(toy_policy(scale=0.1), make(), tmp_path / "parts", 200, **options)
    assert parts.resumed_at == first.trainer.step < whole.trainer.step == parts.trainer.step
    assert parts.state == saved, "the pool and its results are those of the checkpoint"
    assert parts.venv.get_training_state() == whole.venv.get_training_state()
    assert len(parts.pool.past) == 3 and sum(past.games for past in parts.pool.past) > 5
    for one, other in zip(whole.pool.past, parts.pool.past, strict=True):
        assert torch.equal(weights_of(one.policy), weights_of(other.policy))
    assert torch.equal(weights_of(whole.trainer.policy), weights_of(parts.trainer.policy))


def test_past_selves_grow_by_the_learners_steps_and_are_logged(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    run = Run(toy_policy(), duels(4), tmp_path, 200, max_size=50)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    steps, last = [0], 0
    for line in lines[:-1]:
        if line["step"] // 20 > last // 20:
            steps.append(int(line["step"]))
            last = steps[-1]
    assert steps_of(run.pool) == steps and len(steps) > 5
    assert lines[-1]["opponents/size"] == len(steps)
    played = [past for past in run.pool.past if past.games]
    assert lines[-1]["opponents/games"] == sum(past.games for past in played)
    rates = [past.win_rate for past in played]
    assert lines[-1]["opponents/win_rate"] == pytest.approx(np.mean(rates))
    assert lines[-1]["opponents/lowest_win_rate"] == min(rates)


def test_past_selves_stay_as_long_as_a_checkpoint_needs_them(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    run = Run(toy_policy(), duels(4), tmp_path, 200, max_size=2, keep_checkpoints=2)
    checkpoints = checkpoint_paths(tmp_path / "checkpoints")
    kept = folders(tmp_path / "opponents")
    assert len(kept) < 8, "what nobody needs any more is deleted"
    assert {f"step_{step:012d}" for step in steps_of(run.pool)} <= set(kept)
    shutil.rmtree(checkpoints[-1])
    older = Run(toy_policy(), duels(4), tmp_path, 0, max_size=2, keep_checkpoints=2)
    assert older.resumed_at < run.trainer.step
    (tmp_path / "opponents" / kept[0] / "policy.safetensors").write_bytes(b"x")
    policy = toy_policy()
    venv = past_self_play(duels(4), OpponentPool(policy, folder=tmp_path / "opponents"))
    with raises(CheckpointError, "policy.safetensors"):
        PPO(policy, venv, PPOConfig(**OPTIONS), tmp_path, resume=True)


def test_another_run_does_not_replace_opponents_that_a_run_needs(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    run = Run(toy_policy(), duels(4), tmp_path / "first", 100)
    needed = steps_of(run.pool)
    files = sorted((tmp_path / "first" / "opponents").rglob("*.safetensors"))
    before = [file.read_bytes() for file in files]
    policy = toy_policy(scale=0.1)
    pool = OpponentPool(policy, folder=tmp_path / "first" / "opponents")
    with raises(CheckpointError, tmp_path / "first", f"step {needed[0]}"):
        PPO(policy, past_self_play(duels(4), pool), PPOConfig(**OPTIONS), tmp_path / "second").train(40)
    assert pool.past == [] and [file.read_bytes() for file in files] == before


def test_a_run_can_only_be_resumed_with_the_folder_of_its_opponents(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    Run(toy_policy(), duels(4), tmp_path, 100)
    policy = toy_policy()
    venv = past_self_play(duels(4), OpponentPool(policy))
    with raises(CheckpointError, "opponent pool", "folder"):
        PPO(policy, venv, PPOConfig(**OPTIONS), tmp_path, resume=True)
    assert venv.pool.past == [] and venv.steps == 0
    with raises(CheckpointError, "opponent pool", "KeyError"):
        venv.set_training_state({"steps": 3})


def test_a_state_of_the_environments_that_is_refused_leaves_the_pool(tmp_path: Path) -> None:
    train_snakes(tmp_path, 0)
    path = checkpoint_paths(tmp_path / "checkpoints")[-1]
    checkpoint = read_checkpoint(path)
    venv = snakes()
    policy = small_net(venv, 1)
    pool = OpponentPool(policy, folder=tmp_path / "opponents")
    trainer = PPO(policy, past_self_play(venv, pool), PPOConfig(**OPTIONS))
    checkpoint.tensors["environments"]["tails"] -= 2**40
    with raises(CheckpointError, path, "state 'tails'"):
        trainer.restore(checkpoint)
    assert pool.members == []
    checkpoint.tensors["environments"]["tails"] += 2**40
    trainer.restore(checkpoint)
    assert pool.members != []


@pytest.mark.parametrize("number", [-1, 1, 10**30])
def test_numbers_of_members_that_no_pool_gives_are_refused(number: int, tmp_path: Path) -> None:
    venv = snakes()
    pool = OpponentPool(small_net(venv, 0), folder=tmp_path)
    pool.add(0)
    pool.add(8)
    venv = past_self_play(venv, pool)
    state = venv.get_training_state()
    state["pool"]["past"][0]["number"] = number
    with raises(CheckpointError, "number", number):
        venv.set_training_state(state)
    assert [member.number for member in pool.members] == [0, 1]


def test_runs_without_past_selves_can_go_on_with_them_and_the_other_way_round(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    config = PPOConfig(**OPTIONS, total_timesteps=40)
    PPO(toy_policy(), duels(4), config, tmp_path).train()
    run = Run(toy_policy(), duels(4), tmp_path, 80)
    assert run.resumed_at >= 40 and steps_of(run.pool)[0] == 0 and run.trainer.step >= 80
    policy = toy_policy()
    with warns(UserWarning, "opponents"):
        plain = PPO(policy, duels(4), PPOConfig(**OPTIONS, total_timesteps=120), tmp_path, resume=True)
    plain.train()
    assert plain.step >= 120


# -- fixed members -----------------------------------------------------------------------------------------


def snakes() -> Any:
    return ez.make_vec("MultiSnake/lanes", num_envs=4, max_steps=10)


def small_net(venv: Any, seed: int) -> Any:
    torch.manual_seed(seed)
    spaces = venv.single_observation_space, venv.single_action_space
    return ez.RogueNet(*spaces, d_model=8, n_layer=1, n_head=1)


def test_saved_players_that_fit_no_game_are_refused_and_each_game_keeps_the_learner() -> None:
    venv = snakes()
    pool = OpponentPool(small_net(venv, 0))
    pool.add(0)
    venv = past_self_play(venv, pool)
    venv.reset(seed=0)
    state = venv.get_state()
    prefix = "past_self_play/"
    for name, array in {
        "players": np.zeros(3, np.int64),
        "returns": np.zeros(4, np.float32),
        "ended": np.full(4, 7, np.uint8).view(bool),
        "tails": state["tails"] - 2**40,
    }.items():
        key = name if name in state else prefix + name
        with raises(ValueError, f"state {name!r}", "expected"):
            venv.set_state({**state, key: array})
        for own, same in venv.get_state().items():
            np.testing.assert_array_equal(same, state[own])
    venv.set_state({**state, prefix + "players": np.full(4, pool.members[0].number)})
    assert (venv.assignment.players == -1).all()


def train_snakes(folder: Path, seed: int, sources: tuple[Path, ...] = (), resume: bool = False) -> Any:
    venv = snakes()
    policy = small_net(venv, seed)
    pool = OpponentPool(policy, folder=folder / "opponents", checkpoints=sources, max_size=4)
    config = PPOConfig(total_timesteps=200 if resume else 100, num_steps=16, minibatch_size=64)
    trainer = PPO(
        policy, past_self_play(venv, pool, latest_share=0, interval=80), config, folder, resume=resume
    )
    trainer.train()
    return pool


def test_agents_of_other_runs_play_along_and_stay_when_these_runs_are_gone(tmp_path: Path) -> None:
    train_snakes(tmp_path / "old", 1)
    old = ez.load_policy(tmp_path / "old")
    pool = train_snakes(tmp_path / "new", 2, (tmp_path / "old",))
    fixed = pool.fixed[0]
    assert torch.equal(weights_of(fixed.policy), weights_of(old)) and fixed.games > 0
    assert read_metrics(tmp_path / "new" / "metrics.jsonl")[-1]["opponents/win_rate_fixed_0"] > 0
    copies = folders(tmp_path / "new" / "opponents" / "fixed_0")
    assert copies == folders(tmp_path / "old" / "checkpoints")[-1:]
    past = ez.load_policy(tmp_path / "new" / "opponents" / "step_000000000000")
    assert torch.equal(weights_of(past), weights_of(pool.past[0].policy)), "any past self can be loaded"
    shutil.rmtree(tmp_path / "old")
    again = train_snakes(tmp_path / "new", 3, (tmp_path / "old",), resume=True)
    assert torch.equal(weights_of(again.fixed[0].policy), weights_of(old))
    assert again.fixed[0].games > fixed.games and again.fixed[0].number == fixed.number
    source = tmp_path / "new" / "opponents" / "step_000000000000"
    changed = train_snakes(tmp_path / "new", 4, (source,), resume=True)
    assert changed.fixed[0].source == str(source) and changed.fixed[0].games == 0
    numbers = [member.number for member in changed.members]
    assert len(set(numbers)) == len(numbers), "a new fixed member has a number of its own"


def test_an_agent_may_be_a_member_twice(tmp_path: Path) -> None:
    venv = ez.make_vec("MultiSnake/lanes", num_envs=2)
    policy = ez.RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)
    PPO(policy, venv, PPOConfig(total_timesteps=32, num_steps=16), tmp_path / "run").train(progress=False)
    pools = [OpponentPool(policy, checkpoints=[tmp_path / "run"] * 2) for _ in range(2)]
    pools[0].fixed[1].record(1.0)
    pools[1].set_state(pools[0].get_state())
    assert [member.wins for member in pools[1].fixed] == [0, 1]


def test_agents_that_cannot_play_are_refused(tmp_path: Path) -> None:
    train_snakes(tmp_path, 1)
    mines = ez.make_vec("MineSweeper", num_envs=2)
    with raises(ValueError, "network", tmp_path):
        OpponentPool(small_net(mines, 1), checkpoints=[tmp_path])


def test_nothing_is_deleted_where_a_checkpoint_cannot_be_read(
    duels: Any, toy_policy: Any, tmp_path: Path
) -> None:
    run = Run(toy_policy(), duels(4), tmp_path, 200, max_size=2, keep_checkpoints=2)
    kept = folders(tmp_path / "opponents")
    for path in checkpoint_paths(tmp_path / "checkpoints"):
        (path / "checkpoint.json").write_text("{")
    for step in (1000, 1001, 1002):
        run.pool.add(step)
    assert set(kept) <= set(folders(tmp_path / "opponents"))


def test_a_fixed_member_in_the_place_of_another_is_read_from_its_own_run(
    toy_policy: Any, tmp_path: Path
) -> None:
    games = ez.make_vec("MultiSnake/lanes", num_envs=2)
    nets = []
    for seed, name in enumerate("abc"):
        torch.manual_seed(seed)
        nets.append(
            ez.RogueNet(games.single_observation_space, games.single_action_space, d_model=8, n_layer=1)
        )
        OpponentPool(nets[-1], folder=tmp_path / name).add(0)
    learner, folder = nets[2], tmp_path / "run" / "opponents"
    for place, name in enumerate("ab"):
        source = tmp_path / name / "step_000000000000"
        pool = OpponentPool(learner, folder=folder, checkpoints=[source])
        pool.add(place)
        assert torch.equal(weights_of(pool.fixed[0].policy), weights_of(nets[place]))


def test_a_network_that_was_saved_alone_can_be_a_fixed_member(tmp_path: Path) -> None:
    games = ez.make_vec("MultiSnake/lanes", num_envs=2)
    net = ez.RogueNet(games.single_observation_space, games.single_action_space, d_model=8, n_layer=1)
    saved = ez.save_policy(net, tmp_path / "saved")
    folder = tmp_path / "run" / "opponents"
    OpponentPool(net, folder=folder, checkpoints=[saved]).add(0)
    saved.rename(tmp_path / "elsewhere")
    (copy,) = folder.glob("fixed_0/*")
    again = OpponentPool(net, checkpoints=[copy])
    assert torch.equal(weights_of(again.fixed[0].policy), weights_of(net))
