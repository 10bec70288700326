"""`SetProgressCallback`: tells environments how far a training of Stable-Baselines3 is."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from .vec_env import RaggedVecEnv


class SetProgressCallback(BaseCallback):
    """Calls `set_progress(fraction)` of the environments before each rollout, as `entitize.PPO` does.

        model.learn(1_000_000, callback=ez.sb3.SetProgressCallback())

    For environments whose rewards, levels or opponents follow a schedule. Stable-Baselines3 by itself tells
    environments nothing. The fraction is 0 at the start of `learn` and approaches 1 at its end.

    Raises:
        TypeError: when training starts, if the environments are not of `make_vec` or `vec_env`.
    """

    def _on_training_start(self) -> None:
        venv = self.training_env.unwrapped
        if not isinstance(venv, RaggedVecEnv):
            raise TypeError(
                "SetProgressCallback: expected environments of entitize.sb3.make_vec or vec_env, got a"
                f" {type(venv).__name__}"
            )

    def _on_rollout_start(self) -> None:
        venv = self.training_env.unwrapped
        assert isinstance(venv, RaggedVecEnv)
        venv.vector_env.set_progress(1.0 - self.model._current_progress_remaining)

    def _on_step(self) -> bool:
        return True
