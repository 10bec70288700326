"""Rollouts from actors: as one process with all their environments would collect them."""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import entitize as ez
import numpy as np
import pytest
import torch
import yaml
from entitize.cli.train import main
from entitize.experiments import Actors, TrainConfig, UserError
from entitize.experiments.actors import check_ray_actors
from entitize.policies import ActResult
from entitize.ragged import concatenate
from entitize.trainers import PPO, NonFiniteError, PPOConfig
from entitize.trainers.distributed import ActorError
from entitize.trainers.off_policy import revalued
from entitize.trainers.player import Player
from entitize.trainers.ranks import Ranks
from entitize.trainers.rollout import Rollout
from entitize.trainers.runs import derived_seed
from entitize.trainers.schedule import Clock
from gymnasium.error import ClosedEnvironmentError

from facts import mentions, raises
from local_actors import LocalRollouts


class GroupByGroup(ez.RogueNet):
    """Draws the actions of each group of lanes from numbers of its own, as actors do."""

    rngs: list[np.random.Generator]

    def act(self, batch: ez.EntityBatch, *args: Any, **kwargs: Any) -> ActResult:
        lanes = len(batch) // len(self.rngs)
        parts = [
            super(GroupByGroup, self).act(batch[i * lanes : (i + 1) * lanes], rng)
            for i, rng in enumerate(self.rngs)
        ]
        names = list(parts[0].actions)
        return ActResult(
            {name: concatenate([part.actions[name] for part in parts]) for name in names},
            {name: concatenate([part.log_probs[name] for part in parts]) for name in names},
            np.concatenate([part.values for part in parts]),
            {name: concatenate([part.raw[name] for part in parts]) for name in names},
        )


def network(game: str, kind: type[ez.RogueNet] = ez.RogueNet) -> ez.RogueNet:
    torch.manual_seed(0)
    with ez.make_vec(game, 1) as venv:
        return kind(venv.single_observation_space, venv.single_action_space, d_model=16, n_layer=1)


@pytest.mark.parametrize(
    "options",
    [
        {"game": "MultiSnake", "num_steps": 16, "minibatch_size": 64, "normalize_rewards": True},
        {"game": "MineSweeper", "num_steps": 8, "minibatch_size": 5, "joint_log_prob": True},
        {"game": "CherryPick", "num_steps": 8, "minibatch_size": 24, "start_kl_coef": 0.1},
    ],
    ids=lambda options: options["game"],
)
def test_two_actors_collect_and_train_what_one_process_does(
    options: dict[str, Any],
) -> None:
    game = options.pop("game")
    config = PPOConfig(seed=3, **options)
    policy, one = network(game), network(game, GroupByGroup)
    assert isinstance(one, GroupByGroup)
    with LocalRollouts(game, policy, 2, 6) as rollouts, ez.make_vec(game, 6) as venv:
        ours, alone = PPO(policy, rollouts, config), PPO(one, venv, config)
        for update in range(3):
            one.rngs = [np.random.default_rng((derived_seed(3, 0), actor, update)) for actor in range(2)]
            samples, expected = ours.collect(), alone.collect()
            assert samples.observations.equals(expected.observations)
            for name, chosen in expected.actions.items():
                assert samples.actions[name] == chosen
                np.testing.assert_allclose(
                    samples.log_probs[name].values, expected.log_probs[name].values, rtol=1e-5, atol=1e-5
                )
            for name in ("values", "advantages", "returns"):
                theirs = getattr(expected, name)
                np.testing.assert_allclose(getattr(samples, name), theirs, rtol=1e-4, atol=1e-5, err_msg=name)
            metrics = ours.update()
            assert metrics == pytest.approx(alone.update(), rel=1e-4, abs=1e-5)
        assert ours.step == alone.step and ours.episodes.finished == alone.episodes.finished
    theirs = one.state_dict()
    for name, tensor in policy.state_dict().items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-5)


CONFIG = PPOConfig(num_steps=4, minibatch_size=16, total_timesteps=96)
#: What a trainer seeds the first environment with.
START = derived_seed(CONFIG.seed, 0)


@pytest.mark.parametrize("staleness", [0, 1])  # with 1 the first trainer leaves rollouts that it asked for
def test_a_second_trainer_starts_with_new_episodes(staleness: int) -> None:
    policies = [network("MultiSnake") for _ in range(2)]
    with LocalRollouts("MultiSnake", policies[0], 2, 4, staleness=staleness) as rollouts:
        PPO(policies[0], rollouts, CONFIG).train()
        state = policies[0].state_dict()
        again = PPO(policies[0], rollouts, CONFIG)
        policies[1].load_state_dict(state)
        with LocalRollouts("MultiSnake", policies[1], 2, 4, staleness=staleness) as others:
            expected = PPO(policies[1], others, CONFIG).collect()
        assert again.collect().observations.equals(expected.observations)
        assert again.train()


def test_closed_rollouts_say_so() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        trainer.collect()
    with raises(ClosedEnvironmentError, "LocalRollouts", "closed"):
        trainer.collect()
    with raises(ClosedEnvironmentError, "LocalRollouts", "closed"):
        PPO(policy, rollouts, CONFIG)


class Failing:
    """Makes environments; those of one number of lanes fail."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, num_envs: int) -> ez.EntityVectorEnv:
        if self.where == "make":
            raise OSError("no display")
        venv = ez.make_vec("MultiSnake", num_envs)
        if self.where == "step":

            def step(actions: Any) -> Any:
                raise ZeroDivisionError("of the game")

            venv.step = step  # type: ignore[method-assign]
        if self.where == "reward":
            whole = venv.step

            def spoiled(actions: Any) -> Any:
                batch, rewards, *others = whole(actions)
                rewards[1] = np.nan
                return batch, rewards, *others

            venv.step = spoiled  # type: ignore[method-assign]
        if self.where == "opponents":
            for name in ("get_training_state", "set_training_state", "training_metrics"):
                setattr(venv, name, dict)
        return venv


def test_lost_actors_are_started_again_and_nothing_is_missing() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 3, 6, max_restarts=100) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        rollouts.loss = 0.2
        sizes = []
        for _ in range(10):
            sizes.append(len(trainer.collect()))
            metrics = trainer.update()
        assert sizes == [24] * 10 and trainer.step == 240
        assert metrics["charts/episodic_length"] <= 240 / 6, "no episode is longer than what was played"
        assert rollouts.restarts > 3 and len(rollouts.started) == 3 + rollouts.restarts
        assert rollouts.training_metrics() == {"charts/actor_restarts": rollouts.restarts}


def test_a_lost_actor_plays_its_part_again_with_the_same_weights_and_draws() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        trainer.collect()
        trainer.update()
        rollouts.started[1].is_lost = True
        trainer.collect()
        rollout = trainer.collector.rollout
        assert rollout is not None and rollout.renewed is not None
        assert rollout.renewed.tolist() == [False, False, True, True]
        (weights, draws, _), (again, drawn, _) = (
            next(arguments for method, arguments in reversed(actor.calls) if method == "play")
            for actor in rollouts.started[1:]
        )
        assert draws == drawn == (START, 1, 1)
        np.testing.assert_array_equal(weights, again)
        lengths = trainer.episodes.running_lengths
        assert lengths[2:].max() <= 4 < lengths[:2].max() or trainer.episodes.finished


def test_actors_may_be_lost_while_episodes_start() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4, max_restarts=100) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        rollouts.loss = 0.5
        assert len(trainer.collect()) == 16
        assert rollouts.restarts


def test_an_actor_that_is_lost_each_time_is_an_error() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4, max_restarts=2) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        trainer.collect()
        rollouts.loss = 1.0
        with raises(ActorError, "actor 0", "3 times", "killed"):
            trainer.collect()
        rollouts.loss = 0.0
        assert len(trainer.collect()) == 16, "the next rollout begins new episodes"


def test_losses_with_rollouts_in_between_are_no_error_and_begin_other_episodes() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4, max_restarts=1) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        for restarts in range(1, 4):
            trainer.collect()
            trainer.update()
            rollouts._members[1].actor.is_lost = True  # type: ignore[attr-defined]
            assert len(trainer.collect()) == 16 and rollouts.restarts == restarts
            trainer.update()
        seeds = [call[1][0] for actor in rollouts.started for call in actor.calls if "start" in call[0]]
        assert len(set(seeds)) == len(seeds) == 5


def test_the_first_answers_may_take_longer() -> None:
    def make(num_envs: int) -> ez.EntityVectorEnv:
        time.sleep(1.0)
        return ez.make_vec("MultiSnake", num_envs)

    with LocalRollouts(make, network("MultiSnake"), 1, 2, actor_timeout=0.5, max_restarts=0) as rollouts:
        assert rollouts.restarts == 0


def test_environments_of_actors_are_told_how_far_training_is() -> None:
    told: list[float] = []

    def make(num_envs: int) -> ez.EntityVectorEnv:
        venv = ez.make_vec("MultiSnake", num_envs)
        venv.set_progress = told.append  # type: ignore[method-assign]
        return venv

    policy = network("MultiSnake")
    with LocalRollouts(make, policy, 1, 2) as rollouts:
        PPO(policy, rollouts, PPOConfig(num_steps=4, total_timesteps=32)).train()
    assert told == [0, 0.25, 0.5, 0.75]


def test_an_actor_that_hangs_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    policy, hangs, ends = network("MultiSnake"), threading.Event(), threading.Event()

    def make(num_envs: int) -> ez.EntityVectorEnv:
        venv = ez.make_vec("MultiSnake", num_envs)
        whole = venv.step

        def step(actions: Any) -> Any:
            if hangs.is_set():
                hangs.clear()
                ends.wait(60)
            return whole(actions)

        venv.step = step  # type: ignore[method-assign]
        return venv

    with LocalRollouts(make, policy, 1, 2, actor_timeout=2) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        trainer.collect()
        hangs.set()
        assert len(trainer.collect()) == 8 and rollouts.restarts == 1
        ends.set()
    assert re.search(mentions("actor 0", "2 s"), caplog.text)


@pytest.mark.parametrize(
    ("where", "facts"),
    [
        ("make", ("actor 0", "OSError", "no display")),
        ("step", ("actor 0", "ZeroDivisionError", "of the game")),
        ("reward", ("actor 0", "lane 1", "reward", "nan")),
        ("opponents", ("actor 0", "opponents")),
    ],
)
def test_an_environment_that_fails_is_an_error_that_names_the_actor(
    where: str, facts: tuple[str, ...]
) -> None:
    policy = network("MultiSnake")
    with (
        raises(NonFiniteError if where == "reward" else ActorError, *facts),
        LocalRollouts(Failing(where), policy, 2, 4) as rollouts,
    ):
        PPO(policy, rollouts, CONFIG).collect()


def test_what_cannot_be_played_by_actors_is_refused() -> None:
    policy = network("MultiSnake")
    with raises(ValueError, "num_envs", "multiple", 2, 3):
        LocalRollouts("MultiSnake", policy, 2, 3)
    with raises(ValueError, "num_actors", 0):
        LocalRollouts("MultiSnake", policy, 0, 0)  # as many environments as actors
    with raises(ValueError, "actor_timeout", 0):
        LocalRollouts("MultiSnake", policy, 2, 4, actor_timeout=0)
    with raises(ValueError, "LocalRollouts", "policy", "actions", "'move'", "'Pick Cherry'"):
        LocalRollouts("CherryPick", policy, 2, 4)
    spaces = policy.observation_space, policy.action_space
    with raises(TypeError, "RogueNet", "Linear"):
        LocalRollouts("MultiSnake", torch.nn.Linear(1, 1), 2, 4)  # type: ignore[arg-type]
    with raises(ValueError, "width 6"):
        LocalRollouts("MultiSnake", ez.RogueNet(*spaces, d_model=6, n_head=1), 2, 4)

    class Shifted(ez.RogueNet):
        def encode(self, *given: Any, **options: Any) -> Any:
            x, rows, values = super().encode(*given, **options)
            return 30 * x, rows, values

    with raises(ValueError, "policy", "log-probabilities"):  # an actor would play RogueNet itself
        LocalRollouts("MultiSnake", Shifted(*spaces, d_model=8), 2, 4)
    with LocalRollouts("MultiSnake", policy, 1, 1) as rollouts, raises(ValueError, "policy"):
        PPO(network("MultiSnake"), rollouts, CONFIG)


@pytest.mark.parametrize("staleness", [1, 2])
def test_actors_are_no_more_updates_behind_than_asked_for(staleness: int) -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4, staleness=staleness) as rollouts:
        trainer = PPO(policy, rollouts, PPOConfig(num_steps=8, minibatch_size=16, learning_rate=0.01))
        versions: list[np.ndarray] = []
        for _ in range(5):
            versions.append(rollouts._parameters.flat(rollouts._parameters.tensors()))
            samples = trainer.collect()
            np.testing.assert_allclose(samples.values, policy.value(samples.observations), rtol=1e-5)
            metrics = trainer.update()
            assert np.isfinite(metrics["losses/loss"])
        for actor in rollouts.started:
            played = [arguments[0] for method, arguments in actor.calls if method == "play"]
            assert len(played) == 5 + staleness
            for number, weights in enumerate(played[:5]):
                # The first weights are those after the first input statistics.
                if number > staleness:
                    np.testing.assert_array_equal(weights, versions[number - staleness])


def test_asynchronous_training_learns_and_is_repeatable() -> None:
    returns = []
    for _ in range(2):
        policy = network("CherryPick")
        with LocalRollouts("CherryPick", policy, 2, 16, staleness=1) as rollouts:
            trainer = PPO(policy, rollouts, PPOConfig(num_steps=16, minibatch_size=128, learning_rate=0.005))
            first = trainer.train(256, progress=False)
            returns.append(trainer.train(256 * 24, progress=False)["charts/episodic_return"])
    assert returns[0] == returns[1]
    assert returns[0] > first["charts/episodic_return"] + 0.1


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(UserError, "--ray", "entitize[ray]"):
        main(["--ray", "2", "--env.id", "MultiSnake", "--run", "unused"])


@pytest.mark.parametrize(
    ("flags", "facts"),
    [
        ("--ray 3 --env.num-envs 4", ("num_envs", "multiple", 3, 4)),
        ("--ray 0", ("--ray", "at least 1", 0)),
        ("--ray 1 --ray-staleness -1", ("--ray-staleness", -1)),
        ("--ray 1 --ray-timeout 0", ("--ray-timeout", 0)),
        ("--ray-staleness 1", ("--ray-staleness", "--ray")),
        ("--ray-timeout 5", ("--ray-timeout", "--ray")),
        ("--ray 2 --config microrts_selfplay", ("--ray", "opponents")),
        ("--ray 2 --config procgen_impala", ("--ray", "ImpalaNet")),
    ],
)
def test_flags_that_actors_do_not_go_with_are_refused(flags: str, facts: tuple[Any, ...]) -> None:
    with raises(UserError, *facts):
        main(["--env.id", "MultiSnake", "--run", "unused", *flags.split()])


def test_ranks_take_no_actors() -> None:
    with raises(UserError, "--ray", "2 ranks", "torchrun"):
        check_ray_actors(TrainConfig(), Actors(2), Ranks(0, 2))


def of_lanes(rollout: Rollout, lanes: slice) -> Rollout:
    """Return what an actor that has these lanes would have played."""
    every = np.arange(rollout.active.shape[1])
    rows = np.flatnonzero(np.isin(np.nonzero(rollout.active)[1], every[lanes]))
    by_step = ("values", "rewards", "final_values", "terminated", "truncated", "active", "successes")
    return Rollout(
        rollout.observations.gather(rows),
        {name: chosen.gather(rows) for name, chosen in rollout.actions.items()} if len(rows) else {},
        {name: numbers.gather(rows) for name, numbers in rollout.log_probs.items()} if len(rows) else {},
        **{name: getattr(rollout, name)[:, lanes] for name in by_step},
        next_values=rollout.next_values[lanes],
    )


@pytest.mark.parametrize("share", [0.0, 0.4, 0.95])
def test_rollouts_with_inactive_lanes_are_joined_as_one_process_plays_them(
    share: float, toy_policy: Any, waiting_venv: Any
) -> None:
    player = Player(toy_policy(), waiting_venv(4, share), 6, lambda: None, Clock())
    player.start_episodes(5)
    whole = player.play(np.random.default_rng(0))
    parts = [of_lanes(whole, lanes) for lanes in (slice(0, 1), slice(1, 3), slice(3, 4))]
    joined = Rollout.of_neighbours(parts)
    assert joined.observations.equals(whole.observations) and joined.renewed is None
    assert joined.actions == whole.actions and joined.log_probs == whole.log_probs
    kinds = "values rewards final_values terminated truncated active successes next_values"
    for name in kinds.split():
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), err_msg=name)
    ours, theirs = joined.samples(0.9, 0.8), whole.samples(0.9, 0.8)
    np.testing.assert_array_equal(ours.advantages, theirs.advantages)
    lanes = whole.lanes
    assert (lanes is None) == (share == 0) and len(ours) == whole.active.sum()


def test_stale_rollouts_with_inactive_lanes_get_the_present_values_and_ratios(
    toy_policy: Any, waiting_venv: Any
) -> None:
    acting, present = toy_policy(0.1), toy_policy(0.4)
    player = Player(acting, waiting_venv(4), 6, lambda: None, Clock())
    player.start_episodes(5)
    rollout = player.play(np.random.default_rng(0))
    samples = rollout.samples(0.9, 0.8)
    fresh, ratios = revalued(present, rollout, samples)
    np.testing.assert_allclose(fresh.values[rollout.active], present.value(samples.observations), rtol=1e-5)
    assert (ratios[~rollout.active] == 1).all()
    now = present.evaluate(samples.observations, samples.actions).log_probs
    for row, ratio in enumerate(ratios[rollout.active]):
        total = 0.0
        for name, then in samples.log_probs.items():
            start, stop = then.offsets[row : row + 2]
            total += float(now[name][start:stop].sum().detach()) - float(then[row].sum())
        assert ratio == pytest.approx(np.exp(total), rel=1e-4)
    _, ones = revalued(acting, rollout, samples)
    np.testing.assert_allclose(ones, 1, rtol=1e-5)


def test_a_number_that_is_not_finite_is_of_a_lane_of_all() -> None:
    def make(num_envs: int) -> ez.EntityVectorEnv:
        venv = ez.make_vec("MultiSnake", num_envs)
        reset, step, seeds = venv.reset, venv.step, list[Any]()

        def watched(*, seed: Any = None, options: Any = None) -> Any:
            seeds.append(seed)
            return reset(seed=seed, options=options)

        def spoiled(actions: Any) -> Any:
            batch, rewards, *others = step(actions)
            if np.min(seeds[-1]) >= START + 2:  # of the second actor
                rewards[1] = np.nan
            return batch, rewards, *others

        venv.reset, venv.step = watched, spoiled  # type: ignore[method-assign]
        return venv

    policy = network("MultiSnake")
    with (
        raises(NonFiniteError, "actor 1", "lane 0 is lane 2 of all", "lane 1: the reward is nan"),
        LocalRollouts(make, policy, 2, 4) as rollouts,
    ):
        PPO(policy, rollouts, CONFIG).collect()


def test_the_configuration_counts_the_environments_of_all_actors(tmp_path: Path) -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 6) as rollouts:
        PPO(policy, rollouts, CONFIG, tmp_path)
    env = yaml.safe_load((tmp_path / "config.yaml").read_text())["env"]
    assert (env["id"], env["num_envs"]) == ("MultiSnake", 6)


def test_an_actor_that_is_started_again_may_take_longer_at_first() -> None:
    waits: list[tuple[str, float | None]] = []

    class Watched(LocalRollouts):
        def start_actor(self, index: int) -> Any:
            actor = super().start_actor(index)
            call = actor.call  # type: ignore[attr-defined]

            def recorded(method: str, *arguments: Any) -> Any:
                wait = call(method, *arguments)

                def watched(seconds: float | None) -> Any:
                    waits.append((method, seconds))
                    return wait(seconds)

                return watched

            actor.call = recorded  # type: ignore[method-assign]
            return actor

    policy = network("MultiSnake")
    with Watched("MultiSnake", policy, 1, 2, actor_timeout=60.0) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        for _ in range(2):
            trainer.collect()
        assert waits[-1] == ("play", 60.0)
        rollouts.started[0].is_lost = True
        trainer.collect()
        assert rollouts.restarts == 1
        again = [("make", 600.0), ("open", 600.0), ("start_episodes", 600.0), ("play", 600.0)]
        assert waits[-4:] == again


def test_an_actor_that_is_lost_while_episodes_start_gets_its_own_seed() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        rollouts.started[1].is_lost = True
        assert len(trainer.collect()) == 16 and rollouts.restarts == 1
        seeds = [call[1][0] for actor in rollouts.started for call in actor.calls if "start" in call[0]]
        assert seeds == [START, START + 2, START + 2]


def test_episodes_are_renewed_once() -> None:
    policy = network("MultiSnake")
    with LocalRollouts("MultiSnake", policy, 2, 4) as rollouts:
        trainer = PPO(policy, rollouts, CONFIG)
        trainer.collect()
        rollouts.started[1].is_lost = True
        for is_renewed in (True, False):
            trainer.collect()
            rollout = trainer.collector.rollout
            assert rollout is not None and (rollout.renewed is not None) == is_renewed
