"""`PPO`: proximal policy optimization over ragged batches.

`docs/ppo.md` explains how losses of many actors combine and when the normalization statistics change, and
`docs/runs.md` what a resumed run repeats.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityVectorEnv
from ..envs.errors import positive_number, whole_number
from ..envs.vector.wrapper import evolving_layer
from ..policies import Policy, frozen_weights
from ..policies.engines.graphs import matrix_precision
from ..ragged import get_num_threads, keep_freed_memory
from .advantages import explained_variance
from .callbacks import call_back, checked_callbacks
from .collector import Collector
from .compatibility import check_samples, checked_config, checked_module, checked_ranks
from .config import PPOConfig
from .learners.learner import Learner, make_learner
from .learners.optimizer import make_optimizer, place, set_learning_rate
from .progress import Detail, Show, detail_of, shown_progress
from .ranks import Ranks, own_rows
from .rollout import Samples
from .rollout_source import RolloutSource
from .runs.checkpoint import Checkpoint, read_checkpoint
from .runs.guard import Snapshot, check_batch, check_finite, naming_update, saving_on_error
from .runs.run_folder import RunFolder, logging_metrics
from .runs.run_origin import note_origin
from .runs.run_start import as_run_folder, open_run
from .runs.saved_optimizer import OwnsOptimizer
from .runs.tracking import Tracker, TrackerName
from .runs.trainer_state import capture, derived_seed, restore
from .schedule import annealed, is_due, thread_count
from .starting_policy import StartingPolicy, policy_parameters
from .stopping import ending_on_signals

#: Called after every update with the trainer and its metrics, to which it may add; True stops the training.
Callback = Callable[["PPO", dict[str, float]], bool | None]


class PPO(OwnsOptimizer):
    """Trains `policy` on the environments of `venv`.

        trainer = PPO(policy, venv, PPOConfig(total_timesteps=100_000), run_dir="runs/first")
        trainer.train()

    `train` repeats `collect` (one rollout) and `update` (its optimization); you can also call both yourself.
    `clock` adds up the seconds of environments, inference, storage and update. Only `train` sets the number
    of threads, calls `venv.set_progress` and callbacks, and writes metrics and checkpoints of its own accord.

    Under a process group of `torch.distributed` all of its processes train one policy, each in its own `venv`
    (docs/scaling.md); the first one writes the run folder.

    Args:
        policy: an `nn.Module` that satisfies `Policy`.
        venv: resets its environments in the step that ends an episode (autoreset SAME_STEP); or a
            `RolloutSource`, such as `ez.distributed.RayRollouts`.
        config: the hyper-parameters; None: the defaults.
        run_dir: the folder for configuration, metrics and checkpoints, locked by `train`; None: none.
        resume: continue from the newest checkpoint in `run_dir`, or from step 0 if there is none yet.
        callbacks: called after every update.
        track: "wandb", "trackio" or a `Tracker`, which gets the metrics of `run_dir` too (docs/runs.md).

    Raises:
        TypeError: an argument is of another kind; `policy` must be a module and a `Policy`.
        ValueError: policy and environments have different actions, the autoreset mode is another, there is no
            such device or tracker, or no `run_dir` to resume or to track.
        ModuleNotFoundError: the tracker is not installed.
        RankError: another process that trains along is gone, or its policy differs after an update.
        FileNotFoundError, NotADirectoryError, FileExistsError: `run_dir` holds no run to resume, is a file or
            below one, or holds a run and `resume` is false.
        RunLockedError: another process trains in `run_dir`.
        CheckpointError: the checkpoint to resume from is corrupt, foreign or missing.
    """

    def __init__(
        self,
        policy: Policy,
        venv: EntityVectorEnv | RolloutSource,
        config: PPOConfig | None = None,
        run_dir: str | Path | RunFolder | None = None,
        *,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
        track: TrackerName | Tracker | None = None,
    ) -> None:
        self._config = config = checked_config(config)
        self.policy, self.venv = policy, venv
        module = checked_module(policy, venv)
        keep_freed_memory()
        self.ranks = Ranks.current()
        lanes, num_lanes = checked_ranks(self.ranks, policy, venv, config)
        self.callbacks = checked_callbacks(callbacks)
        self.device = place(module, config.device, config.precision)
        optimizer = make_optimizer(self.policy.parameters(), config, self.device)
        self.learner: Learner = make_learner(policy, optimizer, config, self.ranks)
        self.rng = np.random.default_rng(config.seed)
        self.step = self.updates = 0  # steps: of active environments, all together
        self.elapsed_seconds = 0.0  # in rollouts and updates, of earlier parts of a resumed run as well
        start = StartingPolicy(policy, self.ranks) if config.start_kl_coef else None
        self.collector = Collector(policy, venv, config, self.ranks, lanes, num_lanes, start)
        self.clock, self.episodes = self.collector.clock, self.collector.episodes
        self._frozen = policy_parameters(policy) if config.value_warmup_steps else []
        self._total = config.total_timesteps
        self._max_seconds: float | None = None
        self._samples: Samples | None = None  # the rollout that waits for its update
        self._rows: NDArray[np.int64] | None = None  # of all ranks: see `rows_of_rank`
        self._num_samples = 0  # of the last rollout, on all ranks
        self._run = as_run_folder("PPO", run_dir, resume, track) if self.ranks.is_first else None
        self._saved_step: int | None = None
        if self._run is not None:
            with self._run.locked():
                open_run(self, self._run, resume)
        if self.ranks.size > 1:
            self._join_ranks()
        self.ranks.share_statistics(module)
        self._action_rng = self.ranks.action_rng(self.rng, self.config.seed, self.step)

    def __repr__(self) -> str:
        return f"PPO({type(self.policy).__name__}, {self.step:,} of {self._total:,} steps)"

    @property
    def config(self) -> PPOConfig:
        """The hyper-parameters, which stay as they are (docs/ppo.md has schedules)."""
        return self._config

    def _join_ranks(self) -> None:
        """Take over the state of rank 0."""
        tensors, metadata = capture(self)
        state = Checkpoint(Path("of rank 0"), tensors, {"step": self.step, **metadata})
        state = self.ranks.from_first(state)
        if not self.ranks.is_first:
            self.restore(state)

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
        last update's metrics, {} if training was over before. Unless `progress` is false, progress is shown
        on standard error: a bar on a terminal, a line every ten seconds elsewhere; "full" adds losses and
        shares of time.

        Ctrl-C and SIGTERM end it after the update at hand, with a checkpoint in `run_dir`; a second at once.

        Raises:
            KeyboardInterrupt, SystemExit: Ctrl-C or SIGTERM ended it.
            TypeError, ValueError: `total_timesteps` or `max_seconds` is no number or not positive.
            RunLockedError: another process or trainer trains in `run_dir`.
            CheckpointError: the restored checkpoint is of another optimizer than `optimizer`.
            RuntimeError: another trainer has continued the run in `run_dir` since.
            MetricsError: metrics can't be written into `run_dir`.
            NonFiniteError: a loss, gradient, weight, statistic, reward or observation is NaN or infinite.
        """
        if total_timesteps is not None:
            total_timesteps = whole_number("train: total_timesteps", total_timesteps)
        if max_seconds is not None:
            positive_number("train: max_seconds", max_seconds)
        detail = detail_of(progress)
        if not self.ranks.is_first:
            detail = "none"
        self._total = self.config.total_timesteps if total_timesteps is None else total_timesteps
        self._max_seconds = max_seconds
        with self._training() as stop:
            remaining = None if max_seconds is None else max_seconds - self.elapsed_seconds
            with shown_progress(detail, self._total, remaining, self.step) as show:
                return self._train(show, stop)

    @contextmanager
    def _training(self) -> Iterator[threading.Event]:
        """Keep the run folder, if any, locked and its files open; gives the event that ends the training."""
        with ending_on_signals() as stop, ExitStack() as resources:
            if self._run is not None:
                resources.enter_context(self._run.locked())
                resources.callback(self._run.close)
                if self._fraction_done(self.step) < 1:
                    note_origin(self._run.path, self.step, self.device)
                    self._run.note_hyper_parameters({**asdict(self.config), "total_timesteps": self._total})
            yield stop

    def _train(self, show: Show, stop: threading.Event) -> dict[str, float]:
        metrics: dict[str, float] = {}
        while self._fraction_done(self._steps_learned) < 1:
            metrics = self._iterate()
            with saving_on_error(self._save_new), logging_metrics(self._run, self.step, metrics):
                show(self.step, metrics)
                stops = [stop.is_set(), *(call_back(each, self, metrics) for each in self.callbacks)]
            before, interval = self.step - self._num_samples, self.config.checkpoint_interval
            if self._run and is_due(before, self.step, interval):
                self.save_checkpoint()
            if any(self.ranks.gather(any(stops))):
                break
        self._save_new()
        return metrics

    @property
    def _steps_learned(self) -> int:  # `step` without the rollout that waits for its update
        return self.step - (0 if self._samples is None else self._num_samples)

    def _fraction_done(self, step: int) -> float:
        """Return the fraction of training done after `step` steps: by steps or by time, the larger."""
        if step >= self._total:
            return 1.0
        by_time = 0.0 if self._max_seconds is None else self.elapsed_seconds / self._max_seconds
        return max(step / self._total, by_time)

    def _iterate(self) -> dict[str, float]:
        """Run one rollout and its update; return the metrics."""
        self.check_optimizer()
        began, before = time.perf_counter(), dict(self.clock.wall)
        with (
            naming_update(self.updates + 1, self.step, self._run),
            thread_count(self.config.num_threads),
            saving_on_error(self._save_new),
        ):
            if self._samples is None:
                self.venv.set_progress(self._fraction_done(self.step))
                with frozen_weights(self.policy):
                    self.collect()
            metrics = self.update()
        seconds = self.ranks.from_first(time.perf_counter() - began)
        self.elapsed_seconds += seconds
        source = self.venv if isinstance(self.venv, RolloutSource) else evolving_layer(self.venv)
        metrics |= {} if source is None else source.training_metrics()
        metrics |= {"charts/SPS": self._num_samples / seconds, "time/elapsed": self.elapsed_seconds}
        metrics |= {f"time/{name}": total - before.get(name, 0.0) for name, total in self.clock.wall.items()}
        return metrics

    def collect(self) -> Samples:
        """Take `num_steps` steps in every environment; return the rollout, valid until the next call.

        Steps at which an environment is inactive are taken but left out of the rollout.
        """
        self._samples = None
        if not self.collector.has_episodes:
            self._start()
        samples = self._samples = self.collector.collect(self._action_rng, self._fraction_done(self.step))
        self._rows = self.collector.rows
        self._count(len(samples))
        return samples

    def _count(self, num_samples: int) -> None:
        self._num_samples = self.ranks.total(num_samples)[0]
        self.step += self._num_samples

    def update(self, samples: Samples | None = None) -> dict[str, float]:
        """Learn from a rollout, then update the normalization statistics with it; return the metrics.

        If all environments were inactive throughout the rollout, nothing is learned.

        Args:
            samples: from elsewhere, such as `collect` of another trainer, or made of a rollout of this one,
                which then counts no more; their steps are counted. None: the last rollout of `collect`.

        Raises:
            RuntimeError: there is no rollout to learn from.
            TypeError, ValueError: `samples` are no `Samples`, or of other entity types or actions.
            CheckpointError, NonFiniteError: see `train`. After these or any other error, policy and optimizer
                are as before, and the rollout's steps do not count.
        """
        self.check_optimizer()
        samples = self._samples if samples is None else samples
        if samples is None:
            raise RuntimeError("collect a rollout before the update")
        is_own, step_before = samples is self._samples, self._steps_learned
        self._samples = None
        before = Snapshot(self.policy, self.optimizer)
        try:
            if is_own:
                lanes, venv = self.collector.lanes_of_rows, self.venv
                check_batch(samples.observations, venv.single_observation_space, venv.num_envs, lanes)
            else:
                check_samples(samples, self.policy)
                self.step = step_before
                self._count(len(samples))
                self._rows = self.ranks.rows_behind_each_other(len(samples))
            if not self._num_samples:
                self.updates += 1
                return self.episodes.summary()
            self.clock.start()
            self.policy.train()
            with matrix_precision(self.config.precision):
                metrics = self._optimise(samples)
            if not self.learner.frozen:
                self.policy.update_normalization(samples.observations)
            check_finite(self.policy)
            self.ranks.check_policy(self.policy)
        except BaseException:
            before.put_back(self.policy, self.optimizer)
            self.step = step_before
            raise
        self.updates += 1
        self._saved = None
        self.clock.lap("update")
        if (explained := explained_variance(samples.values, samples.returns, self.ranks.moments)) is not None:
            metrics["losses/explained_variance"] = explained
        return {**self.episodes.summary(), **metrics, **self.collector.metrics()}

    def _optimise(self, samples: Samples) -> dict[str, float]:
        """Run all epochs over `samples`; return the means over their minibatches."""
        config = self.config
        num_samples, step_before = self._num_samples, self.step - self._num_samples
        done = self._fraction_done(step_before)
        if config.anneal_lr:
            set_learning_rate(self.optimizer, annealed(config.learning_rate, done))
        ent_coef = annealed(config.ent_coef, done) if config.anneal_entropy else config.ent_coef
        self.learner.prepare(self._frozen if step_before < config.value_warmup_steps else ())
        num_minibatches = -(-num_samples // config.minibatch_size)
        history: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(config.update_epochs):
            minibatches = np.array_split(self.rng.permutation(num_samples), num_minibatches)
            parts = (own_rows(self._rows, rows) for rows in minibatches)
            # A GPU computes beside the threads that gather; on the CPU they would take its cores.
            gathered = samples.gather_each(parts, 1 if self.device.type == "cpu" else get_num_threads())
            steps = [self.learner.step(minibatch, ent_coef) for minibatch in gathered]
            for losses in steps:
                for name, value in losses.items():
                    history[name].append(value)
            kl = float(np.mean([losses["approx_kl"] for losses in steps]))
            if config.target_kl is not None and kl > config.target_kl:
                break
        metrics = {f"losses/{name}": float(np.mean(values)) for name, values in history.items()}
        metrics["charts/learning_rate"] = float(self.optimizer.param_groups[0]["lr"])
        metrics["charts/entropy_coef"] = ent_coef
        metrics["charts/epochs"] = float(len(history["approx_kl"]) // num_minibatches)
        return metrics

    def _start(self) -> None:
        """Start the first episodes; a new policy takes its first normalization statistics from them."""
        # Derived, as lane i gets `seed + i`: runs with neighbouring seeds would share most of their episodes.
        batch = self.collector.start_episodes(derived_seed(self.config.seed, self.step))
        if self.step == 0 and self.ranks.total(len(batch))[0] and not self._frozen:
            self.policy.update_normalization(batch)
            if self.collector.start is not None:
                self.collector.start.take(self.policy)

    # -- runs and checkpoints -------------------------------------------------------------------------------

    def save_checkpoint(self) -> Path:
        """Write a checkpoint into the run folder, without a rollout that waits for its update.

        It contains the state of the environments if they can save it and their episodes have started.

        Raises:
            RuntimeError: the trainer has no run folder.
            CheckpointError: the system refused to write.
        """
        if self._run is None:
            raise RuntimeError("a trainer without run_dir writes no checkpoints")
        step = self._steps_learned
        path = self._run.save(step, *capture(self), self.config.keep_checkpoints)
        self._saved_step = step
        if self.config.reset_at_checkpoint:
            self.collector.player.stop_episodes()
        return path

    def _save_new(self) -> None:
        if self._run is not None and self._steps_learned not in (0, self._saved_step):
            self.save_checkpoint()

    def restore(self, checkpoint: str | Path | Checkpoint) -> None:
        """Continue from a checkpoint.

        Environments that can't restore their state start new episodes, seeded by the configuration's seed and
        the checkpoint's step.

        Raises:
            CheckpointError: it is corrupt or foreign, or the run folder has checkpoints of later steps; the
                trainer is unchanged.
        """
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = read_checkpoint(checkpoint)
        if self._run is not None:
            self._run.check_newest(checkpoint.metadata.get("step"))
        self.collector.continue_episodes(restore(self, checkpoint))
        if self._run is not None:
            self._run.purge(self.step)
        self._samples = None
        self._saved_step = self.step
        self._action_rng = self.ranks.action_rng(self.rng, self.config.seed, self.step)
