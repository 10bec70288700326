"""Training on native games: a run that stops goes on to the bit, and PPO learns one to its optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from entitize import RogueNet, make_vec
from entitize.policies.kernels import parallel
from entitize.policies.rogue_net import Translation
from entitize.ragged import threads as ragged_threads
from entitize.trainers import PPO, PPOConfig, evaluate


def network(venv: Any, seed: int) -> RogueNet:
    torch.manual_seed(seed)
    return RogueNet(venv.single_observation_space, venv.single_action_space, d_model=8, n_layer=1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("MineSweeper", {"max_steps": 7, "cooldown_period": 1}),
        ("MultiSnake", {"board_size": 4, "max_snake_length": 3}),
        ("MoveToOrigin", {"max_steps": 5}),
    ],
)
def test_a_resumed_run_on_a_native_game_is_bit_equal(name: str, options: Any, tmp_path: Path) -> None:
    config = PPOConfig(total_timesteps=96, num_steps=6, minibatch_size=12, checkpoint_interval=48)
    whole = PPO(network(make_vec(name, 4, **options), 1), make_vec(name, 4, **options), config)
    whole.train()
    venv = make_vec(name, 4, **options)
    PPO(network(venv, 1), venv, config, tmp_path, callbacks=[lambda trainer, _: trainer.step >= 48]).train()
    resumed = PPO(network(whole.venv, 2), make_vec(name, 4, **options), config, tmp_path, resume=True)
    assert resumed.step == 48
    resumed.train()
    weights = zip(whole.policy.state_dict().items(), resumed.policy.state_dict().values(), strict=True)
    for (key, left), right in weights:
        assert torch.equal(left, right), key
    states: list[Any] = [trainer.venv.get_state() for trainer in (whole, resumed)]  # type: ignore[attr-defined]
    assert all((array == states[1][key]).all() for key, array in states[0].items())


def test_a_checkpoint_before_the_first_step_resumes_at_the_start(tmp_path: Path) -> None:
    config = PPOConfig(total_timesteps=32, num_steps=8, minibatch_size=8)
    whole, saved, resumed = (make_vec("MineSweeper", 2) for _ in range(3))
    without = PPO(network(whole, 1), whole, config)
    path = PPO(network(saved, 1), saved, config, tmp_path).save_checkpoint()
    assert path.name == "step_000000000000"
    trainer = PPO(network(resumed, 2), resumed, config, tmp_path, resume=True)
    for one in (without, trainer):
        one.train(progress=False)
    weights = zip(without.policy.parameters(), trainer.policy.parameters(), strict=True)
    assert all(torch.equal(left, right) for left, right in weights)


def test_a_rollout_after_going_back_starts_new_episodes_as_after_a_reset_by_others() -> None:
    collected = []
    for goes_back in (True, False):
        venv: Any = make_vec("Minefield", 4)
        trainer = PPO(network(venv, 1), venv, PPOConfig(num_steps=4, minibatch_size=16))
        trainer.collect()
        state = venv.get_state()
        trainer.collect()
        venv.set_state(state) if goes_back else venv.reset(seed=7)
        collected.append(trainer.collect().observations.gather([0, 1, 2, 3]))
    assert collected[0].equals(collected[1])


def test_two_threads_train_as_one_does_and_each_time_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "ROWS_PER_THREAD", 16)  # so that little work is split as well
    monkeypatch.setattr(ragged_threads, "PARALLEL_BYTES", 64)
    shares: list[int] = []
    count = parallel.row_shares
    monkeypatch.setattr(parallel, "row_shares", lambda rows: shares.append(count(rows)) or shares[-1])
    runs = []
    for threads in (1, 2, 2):
        shares.clear()
        config = PPOConfig(total_timesteps=256, num_steps=8, minibatch_size=64, num_threads=threads)
        venv = make_vec("MineSweeper", 16)
        trainer = PPO(network(venv, 1), venv, config)
        trainer.train()
        assert max(shares) == threads
        runs.append(trainer)
    one, two, again = runs
    for name, weights in two.policy.state_dict().items():
        assert torch.equal(weights, again.policy.state_dict()[name]), name
        torch.testing.assert_close(weights, one.policy.state_dict()[name], rtol=1e-3, atol=1e-4)
    assert one.episodes.finished == two.episodes.finished > 0, "rounding has changed no action"


def test_ppo_learns_to_feed_a_snake() -> None:
    torch.manual_seed(2)
    config = PPOConfig(
        total_timesteps=65_536, num_steps=16, minibatch_size=512, learning_rate=0.01, ent_coef=0.02,
        gamma=0.95, seed=2,
    )  # fmt: skip
    with make_vec("MultiSnake", 64, num_snakes=1, board_size=4, max_snake_length=3) as venv:
        policy = RogueNet(
            venv.single_observation_space,
            venv.single_action_space,
            n_layer=1,
            translation=Translation("SnakeHead", ("x", "y")),
        )
        random = evaluate(policy, venv, 256, seed=1).returns.mean()
        PPO(policy, venv, config).train()
        trained = evaluate(policy, venv, 256, deterministic=True, seed=2).returns.mean()
    assert random < 0.2, "there must be something to learn"
    assert trained >= 0.97, "1.0 is the optimum"
