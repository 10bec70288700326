"""`BehaviorCloning`: trains a policy to imitate recorded play."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...datasets import EntityDataset
from ...envs import MultiCategorical, named_code
from ...envs.errors import whole_number
from ...policies import CheckpointError, Policy, check_members, frozen_weights, space_read_by
from ...policies.checkpoint import malformed_means
from ...policies.rogue_net import RogueNet
from ..callbacks import call_back, checked_callbacks
from ..learners.optimizer import make_optimizer, place, set_learning_rate
from ..runs.checkpoint import Checkpoint, network_metadata, read_checkpoint
from ..runs.guard import NonFiniteError, Snapshot, check_finite
from ..runs.run_folder import RunFolder, logging_metrics
from ..runs.run_origin import note_origin
from ..runs.run_start import as_run_folder, network_sections
from ..runs.saved_optimizer import OPTIMIZER, OwnsOptimizer, SavedOptimizer
from ..runs.trainer_state import check_policy, rng_of
from ..schedule import annealed, thread_count
from .cloning_config import BehaviorCloningConfig
from .cloning_learner import FusedCloningLearner, TorchCloningLearner
from .demonstrations import Demonstration, Demonstrations, with_allowed_components

#: Options that a resumed run may have otherwise.
_MAY_CHANGE = {"epochs", "patience", "num_threads", "device"}

#: Called after every epoch with the trainer and its metrics; a true result stops the training.
Callback = Callable[["BehaviorCloning", dict[str, float]], bool | None]


class BehaviorCloning(OwnsOptimizer):
    """Trains `policy` to choose the actions that `dataset` recorded, by maximum likelihood.

        dataset = ez.datasets.EntityDataset("plays")
        ez.BehaviorCloning(policy, dataset).train()

    After each epoch the policy is evaluated on held-out episodes. Training stops once their likelihood has
    not improved for `patience` epochs, and the policy gets the weights of the best epoch.

    Args:
        policy: an `nn.Module` that satisfies `Policy`; a trained one keeps its input statistics.
        dataset: the recorded play.
        config: the hyper-parameters.
        run_dir: where to write configuration, metrics and a checkpoint per epoch; None: nowhere.
        resume: continue from the newest checkpoint in `run_dir`.
        callbacks: called after every epoch; numbers that they add to the metrics are logged.

    Attributes:
        demonstrations: the steps that are learned from and those held out.
        epoch: how many epochs are over; `step` counts the steps learned from.

    Raises:
        TypeError: `policy` is no module or no `Policy`, `dataset` no `EntityDataset`, `config` no
            `BehaviorCloningConfig`, `run_dir` no path, or a callback can't be called.
        ValueError: torch has no such device, `run_dir` is empty, or there is nothing to resume without it.
        FileNotFoundError, NotADirectoryError: there is no such run to resume.
        DatasetError: the dataset has other spaces, no decisions, or actions that their masks forbid.
        FileExistsError: `run_dir` holds a run and `resume` is false.
        RunLockedError: another process trains in `run_dir`.
        CheckpointError: the checkpoint to resume from is corrupt, foreign or missing.
    """

    def __init__(
        self,
        policy: Policy,
        dataset: EntityDataset,
        config: BehaviorCloningConfig | None = None,
        run_dir: str | Path | None = None,
        *,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        config = BehaviorCloningConfig() if config is None else config
        if not isinstance(config, BehaviorCloningConfig):
            raise TypeError(f"BehaviorCloning: config must be a BehaviorCloningConfig, got {config!r}")
        if not isinstance(policy, nn.Module):
            raise TypeError(f"BehaviorCloning: expected an nn.Module that is a Policy, got {policy!r}")
        check_members("BehaviorCloning: policy", policy)
        if not isinstance(dataset, EntityDataset):
            raise TypeError(f"BehaviorCloning: expected an EntityDataset, got {dataset!r}")
        dataset.check_space(space_read_by(policy), "policy")
        self.policy: Policy = policy
        self._config = config
        self.callbacks = checked_callbacks(callbacks)
        self.demonstrations = Demonstrations(
            dataset, config.held_out, config.gamma, config.illegal, config.seed, config.min_return
        )
        self.device = place(policy, config.device)
        optimizer = make_optimizer(policy.parameters(), config, self.device)
        learner = FusedCloningLearner if isinstance(policy, RogueNet) else TorchCloningLearner
        scaled = replace(config, vf_coef=config.vf_coef / self.demonstrations.returns_variance)
        self.learner: TorchCloningLearner = learner(policy, optimizer, scaled)
        self.rng = np.random.default_rng(config.seed)
        self.epoch = self.step = 0
        self.elapsed_seconds = 0.0
        #: Of the best epoch: its number, the likelihood of held-out steps, and the weights.
        self._best: tuple[int, float, dict[str, Tensor]] | None = None
        self._run = as_run_folder("BehaviorCloning", run_dir, resume)
        if self._run is not None:
            with self._run.locked():
                self._open_run(self._run, resume)

    @property
    def config(self) -> BehaviorCloningConfig:
        """The hyper-parameters, which stay as they are."""
        return self._config

    # -- training -------------------------------------------------------------------------------------------

    def train(self, epochs: int | None = None) -> dict[str, float]:
        """Train until `epochs` (of the configuration, unless given) are over, or until early stopping.

        Returns:
            the metrics of the best epoch; of the last one where nothing is held out.

        Raises:
            TypeError, ValueError: `epochs` is no whole number of at least 1.
            CheckpointError: the restored checkpoint is of another optimizer than `optimizer`.
            MetricsError: metrics can't be written into `run_dir`.
            RunLockedError: another process trains in `run_dir`.
            NonFiniteError: a loss, gradient or weight is NaN or infinite. After this or any other error
                policy and optimizer are as before the epoch.
        """
        epochs = self.config.epochs if epochs is None else epochs
        whole_number("BehaviorCloning.train: epochs", epochs)
        if self._run is None:
            return self._train(epochs)
        with self._run.locked():
            note_origin(self._run.path, self.step, self.device)
            try:
                return self._train(epochs)
            finally:
                self._run.close()

    def _train(self, epochs: int) -> dict[str, float]:
        metrics: dict[str, float] = {}
        best_metrics: dict[str, float] = {}
        is_stopped = False
        while self.epoch < epochs and not self._is_over():
            metrics = self._run_epoch(epochs)
            if self._best is None or self._best[0] == self.epoch:
                best_metrics = metrics
            with logging_metrics(self._run, self.step, metrics):
                stops = [call_back(each, self, metrics) for each in self.callbacks]
            is_stopped = any(stops)
            if is_stopped:
                break
        if self._best is not None and self._best[0] != self.epoch:
            self.policy.load_state_dict(self._best[2])
            if self._run is not None and not is_stopped:  # a stopped run resumes from its last epoch
                self._save()
        if self._best is not None and not best_metrics:
            # The best epoch was before a resume, or in a former call.
            best_metrics = {**self.evaluate(), "charts/epoch": float(self._best[0])}
        return best_metrics or metrics

    def _is_over(self) -> bool:
        """Return True if the likelihood of held-out steps has not improved for `patience` epochs."""
        patience = self.config.patience
        return self._best is not None and patience is not None and self.epoch - self._best[0] >= patience

    def _run_epoch(self, epochs: int) -> dict[str, float]:
        """Learn from all steps once, evaluate, and write a checkpoint."""
        self.check_optimizer()
        began = time.perf_counter()
        before, order = Snapshot(self.policy, self.optimizer), self.rng.bit_generator.state
        config, rows = self.config, self.demonstrations.learned
        history: defaultdict[str, list[float]] = defaultdict(list)
        num_minibatches = -(-len(rows) // config.minibatch_size)
        try:
            with thread_count(config.num_threads):
                if self.epoch == 0:
                    self._take_statistics(num_minibatches)
                self.policy.train()
                for place, part in enumerate(np.array_split(self.rng.permutation(rows), num_minibatches)):
                    if config.anneal_lr:
                        done = (self.epoch + place / num_minibatches) / epochs
                        set_learning_rate(self.optimizer, annealed(config.learning_rate, done))
                    for name, value in self.learner.step(self._minibatch(part)).items():
                        history[name].append(value)
                check_finite(self.policy)
                metrics = {f"losses/{name}": float(np.mean(values)) for name, values in history.items()}
                metrics |= self.evaluate()
        except BaseException as error:
            before.put_back(self.policy, self.optimizer)
            self.rng.bit_generator.state = order
            if isinstance(error, NonFiniteError):
                raise NonFiniteError(f"epoch {self.epoch + 1} (step {self.step}): {error}") from error
            raise
        self._saved = None
        self.epoch, self.step = self.epoch + 1, self.step + len(rows)
        seconds = time.perf_counter() - began
        self.elapsed_seconds += seconds
        likelihood = metrics.get("held_out/log_likelihood")
        if likelihood is not None and (self._best is None or likelihood > self._best[1]):
            weights = {name: tensor.clone() for name, tensor in self.policy.state_dict().items()}
            self._best = self.epoch, likelihood, weights
        metrics |= {"charts/epoch": float(self.epoch), "charts/SPS": len(rows) / seconds}
        metrics["time/elapsed"] = self.elapsed_seconds
        if self._run is not None:
            self._save()
        return metrics

    def _take_statistics(self, num_minibatches: int) -> None:
        """Give a new policy the statistics of the inputs, from all steps that it learns from.

        A policy that has some keeps them: its weights were trained with them.
        """
        state = self.policy.state_dict()
        if any(bool((tensor > 0).any()) for name, tensor in state.items() if name.split(".")[-1] == "count"):
            return
        for part in np.array_split(self.demonstrations.learned, num_minibatches):
            self.policy.update_normalization(self.demonstrations.gather(part).observations)

    def _minibatch(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Demonstration:
        """Return the steps at `rows`, with actions in the form that the policy's `evaluate` takes."""
        found = self.demonstrations.gather(rows)
        actions = {
            name: with_allowed_components(chosen, action, found.observations.actions[name])
            if isinstance(action := self.policy.action_space[name], MultiCategorical)
            else chosen
            for name, chosen in found.actions.items()
        }
        as_raw = getattr(self.policy, "as_raw", getattr(self.policy, "as_drawn", None))  # its former name
        return replace(found, actions=actions if as_raw is None else as_raw(actions))

    def evaluate(self) -> dict[str, float]:
        """Evaluate the policy on the held-out steps; no metrics where there are none.

        Returns:
            "held_out/log_likelihood", the mean over actors; and per action "held_out/accuracy/<action>", the
            share of actors for which the most probable action is the recorded one, or for a continuous action
            "held_out/error/<action>", the mean absolute difference between its mean and what was recorded.
        """
        rows = self.demonstrations.held_out
        if not len(rows):
            return {}
        likelihood, units = 0.0, 0
        sums: defaultdict[str, float] = defaultdict(float)
        counts: defaultdict[str, int] = defaultdict(int)
        self.policy.train(False)
        with torch.no_grad(), frozen_weights(self.policy):
            for part in np.array_split(rows, -(-len(rows) // self.config.minibatch_size)):
                recorded, drawn = self.demonstrations.gather(part), self._minibatch(part)
                log_probs = self.policy.evaluate(drawn.observations, drawn.actions).log_probs
                likelihood += sum(float(values.sum(dtype=torch.float64)) for values in log_probs.values())
                units += drawn.num_actors
                chosen = self.policy.act(recorded.observations, self.rng, deterministic=True).actions
                for name, action in self.policy.action_space.items():
                    ours, theirs = chosen[name].values, recorded.actions[name].values
                    if action.is_continuous:
                        key, found = f"held_out/error/{name}", np.abs(ours - theirs)
                    else:
                        same = (ours == theirs).reshape(len(ours), math.prod(ours.shape[1:]))
                        if isinstance(action, MultiCategorical):  # of what its kind uses
                            same |= ~action.used[theirs[:, 0]]
                        key, found = f"held_out/accuracy/{name}", same.all(1)
                    sums[key] += float(found.sum(dtype=np.float64))
                    counts[key] += found.size
        means = {key: sums[key] / counts[key] for key in sums if counts[key]}
        return {"held_out/log_likelihood": likelihood / max(units, 1), **means}

    # -- runs and checkpoints -------------------------------------------------------------------------------

    def _open_run(self, run: RunFolder, resume: bool) -> None:
        checkpoint = run.newest_checkpoint(resume)
        if checkpoint is not None:
            self._restore(read_checkpoint(checkpoint))
        run.purge(self.step)
        facts = self.demonstrations.dataset.metadata
        env = {"id": facts.get("env"), "kwargs": facts.get("kwargs", {})}
        if facts.get("view"):
            env["view"] = facts["view"]
        # A dataset may come from others: its code is for users to name.
        if not env["id"] or named_code(env):
            env = {"id": None}
        run.write_config({"env": env, **network_sections(self.policy)}, resume)

    def _save(self) -> Path:
        """Write a checkpoint of this moment; the file of an epoch is written again with the best weights."""
        assert self._run is not None
        moments, optimizer = self.saved_optimizer()
        tensors: dict[str, Mapping[str, Tensor]] = {
            "policy": dict(self.policy.state_dict()),
            "optimizer": moments,
            "trainer": {"torch_rng": torch.get_rng_state()},
        }
        metadata: dict[str, Any] = {
            "epoch": self.epoch,
            "elapsed_seconds": self.elapsed_seconds,
            "rng": self.rng.bit_generator.state,
            **network_metadata(self.policy),
            OPTIMIZER: optimizer,
            "cloning": asdict(self.config),
            "dataset": ", ".join(map(str, self.demonstrations.dataset.paths)),
            "num_steps": len(self.demonstrations.dataset),
            "dataset_sums": self.demonstrations.dataset.sums,
        }
        if self._best is not None:
            tensors["best"] = self._best[2]
            metadata["best"] = {"epoch": self._best[0], "log_likelihood": self._best[1]}
        return self._run.save(self.step, tensors, metadata, keep=3)

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint; nothing has changed if this raises.

        Raises:
            CheckpointError: it is of another network, other spaces, another trainer, other hyper-parameters
                or another dataset.
        """
        with malformed_means(f"checkpoint {checkpoint.path} is not of this trainer"):
            check_policy(self.policy, checkpoint)
            self._check_continues(checkpoint)
            optimizer = SavedOptimizer.of(checkpoint, self.policy)
            rng = rng_of(checkpoint.metadata["rng"])
            epoch, step = int(checkpoint.metadata["epoch"]), int(checkpoint.metadata["step"])
            elapsed = float(checkpoint.metadata["elapsed_seconds"])
            best = None
            if "best" in checkpoint.metadata:
                stored = checkpoint.metadata["best"]
                weights = {name: tensor.clone() for name, tensor in checkpoint.tensors["best"].items()}
                best = int(stored["epoch"]), float(stored["log_likelihood"]), weights
        self.policy.load_state_dict(checkpoint.tensors["policy"])
        self.restore_optimizer(optimizer)
        torch.set_rng_state(checkpoint.tensors["trainer"]["torch_rng"])
        self.rng, self.epoch, self.step, self.elapsed_seconds, self._best = rng, epoch, step, elapsed, best

    def _check_continues(self, checkpoint: Checkpoint) -> None:
        """Refuse hyper-parameters and data whose likelihoods could not be compared with those of the run."""
        stored, now = checkpoint.metadata["cloning"], asdict(self.config)
        own = {name: now[name] for name in now if name in stored and name not in _MAY_CHANGE}
        differing = [
            f"{name} was {stored[name]!r}, now {own[name]!r}" for name in own if stored[name] != own[name]
        ]
        dataset, before = self.demonstrations.dataset, checkpoint.metadata
        if before.get("num_steps", len(dataset)) != len(dataset):
            differing.append(
                f"the dataset ({before['dataset']}) had {before['num_steps']:,} steps, now {len(dataset):,}"
            )
        elif before.get("dataset_sums", dataset.sums) != dataset.sums:
            differing.append(f"the dataset ({before['dataset']}) had the same number of steps, but others")
        if differing:
            raise CheckpointError(
                f"checkpoint {checkpoint.path}: expected the dataset and the options of the run:"
                f" {'; '.join(sorted(differing))}. Start a run in another folder"
            )
