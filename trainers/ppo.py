"""`PPO`: proximal policy optimization over ragged batches.

`docs/ppo.md` explains how losses of many actors combine, when the normalization statistics change and what a
resumed run repeats.

Shape alphabet: T steps, E environments.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch.optim import Optimizer

from ..envs import EntityBatch, EntityVectorEnv, no_actions
from ..envs.errors import positive_number, whole_number
from ..policies.engines.graphs.cuda import matrix_precision
from ..policies.policy import ActResult, Policy, frozen_weights
from ..ragged import keep_freed_memory
from .advantages import explained_variance, final_values, next_values
from .compatibility import checked_callbacks, checked_module
from .config import PPOConfig
from .lanes import EpisodeStatistics, Shown
from .learners.learner import Learner, make_learner
from .learners.optimizer import make_optimizer, place, set_learning_rate
from .progress import Detail, detail_of, shown_progress
from .reward_normalization import RewardNormalizer
from .rollout import RolloutBuffer, Samples
from .runs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from .runs.guard import Snapshot, check_batch, check_lanes, check_module, check_values, naming_update
from .runs.run_folder import RunFolder
from .runs.run_origin import note_origin, open_run, run_folder
from .runs.trainer_state import EvolvingVectorEnv, capture, derived_seed, restore
from .schedule import Clock, annealed, is_due, thread_count
from .starting_policy import StartingPolicy, policy_parameters

#: Called after every update with the trainer and its metrics; a true result stops the training.
Callback = Callable[["PPO", dict[str, float]], bool | None]


class PPO:
    """Trains `policy` on the environments of `venv`.

        trainer = PPO(policy, venv, PPOConfig(total_timesteps=100_000), run_dir="runs/first")
        trainer.train()

    `train` repeats `collect` (one rollout) and `update` (its optimization); you can also call both yourself.
    `clock` adds up the seconds of environments, inference, storage and update. Only `train` sets the number
    of threads.

    Args:
        policy: an `nn.Module` that satisfies `Policy`.
        venv: resets its environments in the step that ends an episode (autoreset SAME_STEP).
        config: the hyper-parameters.
        run_dir: the folder for configuration, metrics and checkpoints; `train` locks it. None: nothing is
            written.
        resume: continue from the newest checkpoint in `run_dir`; from step 0 if the run ended before its
            first checkpoint.
        callbacks: called after every update.

    Raises:
        TypeError: `policy` is no module or no `Policy`, or `config` no `PPOConfig`.
        FileNotFoundError: there is no `run_dir` to resume.
        NotADirectoryError: `run_dir` is a file, or below one.
        ValueError: policy and environments have different actions, or the autoreset mode is another.
        FileExistsError: `run_dir` holds a run and `resume` is false.
        RunLockedError: another process trains in `run_dir`.
        CheckpointError: the checkpoint to resume from is corrupt, foreign or missing.
    """

    def __init__(
        self,
        policy: Policy,
        venv: EntityVectorEnv,
        config: PPOConfig,
        run_dir: str | Path | RunFolder | None = None,
        *,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if not isinstance(config, PPOConfig):
            raise TypeError(f"PPO: config: expected a PPOConfig, got {config!r}. Use PPOConfig(**options)")
        self.policy = policy
        self.module = checked_module(policy, venv)
        keep_freed_memory()
        self.venv = venv
        self.config = config
        self.callbacks = checked_callbacks(callbacks)
        self.device = place(self.module, config)
        optimizer = make_optimizer(self.module.parameters(), config, self.device)
        self.learner: Learner = make_learner(policy, self.module, optimizer, config)
        self.rng = np.random.default_rng(config.seed)
        self.step = 0  # active environment steps, over all environments
        self.updates = 0
        self.elapsed_seconds = 0.0  # in rollouts and updates, of earlier parts of a resumed run as well
        self.episodes = EpisodeStatistics(venv.num_envs)
        self.reward_normalizer = (
            RewardNormalizer(venv.num_envs, config.gamma) if config.normalize_rewards else None
        )
        self.clock = Clock()
        self.start = StartingPolicy(policy) if config.start_kl_coef else None  # it is penalized to leave it
        self._frozen = policy_parameters(self.module) if config.value_warmup_steps else []
        self._total = config.total_timesteps
        self._max_seconds: float | None = None
        self._buffer = RolloutBuffer(venv.single_observation_space, config.num_steps, venv.num_envs)
        self.shown: Shown | None = None  # the current observations; None: new episodes come next
        self._samples: Samples | None = None  # the rollout that waits for its update
        self._run = run_folder(run_dir, resume)
        self._saved_step: int | None = None
        if self._run is not None:
            with self._run.locked():
                open_run(self, self._run, resume)

    @property
    def optimizer(self) -> Optimizer:
        """The learner's optimizer; another one may be assigned."""
        return self.learner.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        self.learner.optimizer = optimizer

    # -- training -------------------------------------------------------------------------------------------

    def train(
        self,
        total_timesteps: int | None = None,
        max_seconds: float | None = None,
        *,
        progress: bool | Detail = True,
    ) -> dict[str, float]:
        """Train until `total_timesteps` environment steps (of the configuration, unless given) were taken.

        Stops earlier once `max_seconds` were spent in rollouts and updates; annealed options then reach 0
        when that time is over. A resumed or repeated call continues to count steps and seconds. Returns the
        last update's metrics. Unless `progress` is false, progress is shown on standard error: a bar on a
        terminal, a line every ten seconds elsewhere; "full" adds losses and shares of time.

        Raises:
            TypeError, ValueError: `total_timesteps` or `max_seconds` is no number or not positive.
            RunLockedError: another process or trainer trains in `run_dir`.
            RuntimeError: another trainer has continued the run in `run_dir` since.
            NonFiniteError: a loss, gradient, weight, statistic, reward or observation is NaN or infinite.
        """
        if total_timesteps is not None:
            whole_number("train: total_timesteps", total_timesteps)
        if max_seconds is not None:
            positive_number("train: max_seconds", max_seconds)
        detail = detail_of(progress)
        self._total = self.config.total_timesteps if total_timesteps is None else total_timesteps
        self._max_seconds = max_seconds
        with self._training():
            remaining = None if max_seconds is None else max_seconds - self.elapsed_seconds
            with shown_progress(detail, self._total, remaining, self.step) as show:
                return self._train(show)

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Keep the run folder, if any, locked and its files open."""
        if self._run is None:
            yield
            return
        with self._run.locked():
            if self._fraction_done(self.step) < 1:
                note_origin(self._run.path, self.step, self.device)
            try:
                yield
            finally:
                self._run.close()

    def _train(self, show: Callable[[int, dict[str, float]], None]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        while self._fraction_done(self.step) < 1:
            metrics = self._iterate()
            show(self.step, metrics)
            stops = [callback(self, metrics) for callback in self.callbacks]
            step_before = self.step - self._buffer.num_rows  # of the rollout that was just learned
            if self._run and is_due(step_before, self.step, self.config.checkpoint_interval):
                self.save_checkpoint()
            if any(stops):
                break
        if self._run and self._saved_step != self.step:
            self.save_checkpoint()
        return metrics

    def _fraction_done(self, step: int) -> float:
        """Return the fraction of training done after `step` steps: by steps or by time, the larger."""
        if step >= self._total:
            return 1.0
        by_time = 0.0 if self._max_seconds is None else self.elapsed_seconds / self._max_seconds
        return max(step / self._total, by_time)

    def _iterate(self) -> dict[str, float]:
        """Run one rollout and its update, and log the metrics."""
        began = time.perf_counter()
        before = dict(self.clock.wall)
        with naming_update(self.updates + 1, self.step, self._run), thread_count(self.config.num_threads):
            self.venv.set_progress(self._fraction_done(self.step))
            with frozen_weights(self.policy):
                self.collect()
            metrics = self.update()
        seconds = time.perf_counter() - began
        self.elapsed_seconds += seconds
        if isinstance(self.venv, EvolvingVectorEnv):
            metrics.update(self.venv.training_metrics())
        metrics["charts/SPS"] = self._buffer.num_rows / seconds
        metrics["time/elapsed"] = self.elapsed_seconds
        for name, total in self.clock.wall.items():
            metrics[f"time/{name}"] = total - before.get(name, 0.0)
        if self._run is not None:
            self._run.log(self.step, metrics)
        return metrics

    def collect(self) -> Samples:
        """Take `num_steps` steps in every environment; return the rollout, valid until the next call.

        Steps at which an environment is inactive are taken but left out of the rollout.
        """
        shown = self._start() if self.shown is None else self.shown
        buffer, clock, config = self._buffer, self.clock, self.config
        self.shown = self._samples = None  # after an error, new episodes start
        buffer.clear()
        self.module.eval()
        clock.start()
        for _ in range(config.num_steps):
            batch = shown.at_work()
            acted = self._act(shown, batch)
            clock.lap("inference")
            buffer.append(batch, acted, shown.active)
            clock.lap("storage")
            after, rewards, terminated, truncated, info = self.venv.step(shown.for_all(acted.actions))
            clock.lap("env")
            check_lanes("reward", rewards)
            bootstraps = final_values(self.policy, buffer.last_values, terminated, truncated, info)
            clock.lap("inference")
            buffer.record(rewards, terminated, truncated, bootstraps)
            self.episodes.record(rewards, terminated | truncated, shown.active)
            clock.lap("storage")
            shown = Shown.of(after, info)
        self.shown = shown
        bootstraps = next_values(self.policy, buffer.last_values, shown)
        check_values(self.module, shown.batch, bootstraps, self.venv.num_envs)
        clock.lap("inference")
        normalizer = self.reward_normalizer
        scaled = buffer.rewards if normalizer is None else buffer.normalized_rewards(normalizer)
        estimation = config.gamma, config.gae_lambda
        self._samples = buffer.samples(bootstraps, *estimation, scaled)
        if self.start is not None:
            coef = annealed(config.start_kl_coef, self._fraction_done(self.step) / config.start_kl_share)
            penalized = self.start.penalized(scaled, self._samples, buffer.active, coef)
            if penalized is not scaled:
                self._samples = buffer.samples(bootstraps, *estimation, penalized)
        clock.lap("storage")
        self.step += len(self._samples)
        return self._samples

    def update(self) -> dict[str, float]:
        """Learn from the last rollout, then update the normalization statistics with it; return the metrics.

        If all environments were inactive throughout the rollout, nothing is learned.

        Raises:
            RuntimeError: there is no rollout to learn from.
            NonFiniteError: see `train`. After this or any other error, policy and optimizer are as before.
        """
        if self._samples is None:
            raise RuntimeError("collect a rollout before the update")
        samples, self._samples = self._samples, None
        if not len(samples):
            self.updates += 1
            return self.episodes.summary()
        self.clock.start()
        check_batch(samples.observations, self.venv.num_envs, self._buffer.lanes)
        before = Snapshot(self.module, self.optimizer)
        try:
            self.module.train()
            with matrix_precision(self.config.precision):
                metrics = self._optimise(samples)
            if not self.learner.frozen:
                self.policy.update_normalization(samples.observations)
            check_module(self.module)
        except BaseException:
            before.put_back(self.module, self.optimizer)
            raise
        self.updates += 1
        self.clock.lap("update")
        if (explained := explained_variance(samples.values, samples.returns)) is not None:
            metrics["losses/explained_variance"] = explained
        if self.reward_normalizer is not None:
            metrics["charts/reward_deviation"] = self.reward_normalizer.deviation
        if self.start is not None:
            metrics |= self.start.metrics()
        return {**self.episodes.summary(), **metrics}

    def _optimise(self, samples: Samples) -> dict[str, float]:
        """Run all epochs over `samples`; return the means over their minibatches."""
        config = self.config
        done = self._fraction_done(self.step - len(samples))
        learning_rate, ent_coef = config.learning_rate, config.ent_coef
        if config.anneal_lr:
            learning_rate = annealed(learning_rate, done)
        if config.anneal_entropy:
            ent_coef = annealed(ent_coef, done)
        set_learning_rate(self.optimizer, learning_rate)
        is_warming_up = self.step - len(samples) < config.value_warmup_steps
        self.learner.frozen = self._frozen if is_warming_up else ()
        # The clipped loss keeps a value within `clip_coef` of what it was: an untrained one goes further.
        self.learner.config = replace(config, clip_vloss=False) if is_warming_up else config
        num_minibatches = -(-len(samples) // config.minibatch_size)
        history: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(config.update_epochs):
            minibatches = np.array_split(self.rng.permutation(len(samples)), num_minibatches)
            steps = [self.learner.step(samples.gather(indices), ent_coef) for indices in minibatches]
            for losses in steps:
                for name, value in losses.items():
                    history[name].append(value)
            kl = float(np.mean([losses["approx_kl"] for losses in steps]))
            if config.target_kl is not None and kl > config.target_kl:
                break
        metrics = {f"losses/{name}": float(np.mean(values)) for name, values in history.items()}
        metrics["charts/learning_rate"] = learning_rate
        metrics["charts/entropy_coef"] = ent_coef
        metrics["charts/epochs"] = float(len(history["approx_kl"]) // num_minibatches)
        return metrics

    # -- the environments -----------------------------------------------------------------------------------

    def _start(self) -> Shown:
        """Start the first episodes; a new policy takes its first normalization statistics from them."""
        self.episodes.forget_running()
        if self.reward_normalizer is not None:
            self.reward_normalizer.forget_running()
        seed = derived_seed(self.config.seed, self.step) if self.step else self.config.seed
        shown = Shown.of(*self.venv.reset(seed=seed))
        batch = shown.at_work()
        if self.step == 0 and len(batch):
            check_batch(shown.batch, self.venv.num_envs)
            if not self._frozen:
                self.policy.update_normalization(batch)
        return shown

    def _act(self, shown: Shown, batch: EntityBatch) -> ActResult:
        """Return the policy's actions at `batch`, the steps of `shown` that are active.

        If a number is not finite, the error names its source, whether or not the policy fails on it.
        """
        if not len(batch):
            return ActResult(no_actions(self.venv.single_action_space, 0), {}, np.zeros(0, np.float32))
        try:
            acted = self.policy.act(batch, self.rng)
        except Exception:
            check_batch(shown.batch, self.venv.num_envs)
            check_module(self.module)
            raise
        check_values(self.module, shown.batch, acted.values, self.venv.num_envs, shown.active)
        return acted

    # -- runs and checkpoints -------------------------------------------------------------------------------

    def save_checkpoint(self) -> Path:
        """Write a checkpoint into the run folder.

        It contains the state of the environments if they can save it and their episodes have started.

        Raises:
            RuntimeError: the trainer has no run folder.
            CheckpointError: the system refused to write.
        """
        if self._run is None:
            raise RuntimeError("a trainer without run_dir writes no checkpoints")
        tensors, metadata = capture(self)
        with self._run.locked():
            path = write_checkpoint(
                self._run.checkpoints, self.step, tensors, metadata, keep=self.config.keep_checkpoints
            )
        self._saved_step = self.step
        if self.config.reset_at_checkpoint:
            self.shown = None
        return path

    def restore(self, checkpoint: str | Path | Checkpoint) -> None:
        """Continue from a checkpoint.

        Environments that can't restore their state start new episodes, seeded by the configuration's seed and
        the checkpoint's step.

        Raises:
            CheckpointError: it is corrupt or foreign; the trainer is unchanged.
        """
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = read_checkpoint(checkpoint)
        self.shown = restore(self, checkpoint)
        self._samples = None
        self._saved_step = self.step
