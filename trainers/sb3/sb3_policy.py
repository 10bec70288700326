"""`RogueNetPolicy`: a RogueNet as an actor-critic policy of Stable-Baselines3.

The path of the class is part of saved models: it stays where it is.
Shape alphabet: B steps, A actors of one action, M numbers of all actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor

from ...envs import (
    EntityBatch,
    EntitySpace,
    ObservationError,
    PackedActionSpace,
    PackedBatchSpace,
    batch_observations,
)
from ...policies.rogue_net import InputNorm, RogueNet
from ...ragged import RaggedArray

#: Options of the policies of Stable-Baselines3 that make no sense here.
_OF_OTHER_POLICIES = {
    *("net_arch", "activation_fn", "ortho_init", "full_std", "use_expln", "squash_output"),
    *("features_extractor_class", "features_extractor_kwargs", "share_features_extractor"),
    *("normalize_images", "clip_mean", "n_critics"),
}

#: Adam's ε, as in the actor-critic policies of Stable-Baselines3.
_ADAM_EPS = 1e-5


@dataclass(frozen=True, eq=False)
class RolloutSteps:
    """A minibatch, and the whole rollout that it is of."""

    batch: EntityBatch
    rollout: EntityBatch


class RogueNetPolicy(BasePolicy):
    """A `RogueNet` that acts on packed batches, for `stable_baselines3.PPO` and `A2C`.

        PPO(RogueNetPolicy, venv, rollout_buffer_class=RaggedRolloutBuffer, policy_kwargs=dict(d_model=16))

    The log-probability and the entropy of a step are the sums over all actors and actions of the step. All
    randomness comes from torch's generator, which Stable-Baselines3 seeds.

    The input statistics are updated as in `entitize.PPO`: before the first action of a fresh network by the
    observations of all environments, and after each update by its rollout. Stable-Baselines3 gives policies
    no end-of-update hook, so statistics are updated lazily: before the policy is next used, saved or taken
    as `.network`. Observations that `predict` is given never change them.

    Args:
        observation_space, action_space: those of an `entitize.sb3.RaggedVecEnv`.
        lr_schedule: the learning rate by the part of training that remains; the optimizer starts with that of
            1.
        use_sde: False, which the algorithms that fit pass on.
        optimizer_class, optimizer_kwargs: of the optimizer; ε of Adam is 1e-5 unless given.
        options: those of `RogueNet`, the fields of `RogueNetConfig`.

    Raises:
        TypeError: other spaces, an unknown option, or no `use_sde`, as from an algorithm that does not fit.
        ValueError: an option that does not fit the spaces, or `use_sde=True`.
    """

    observation_space: PackedBatchSpace
    action_space: PackedActionSpace
    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        use_sde: bool | None = None,
        optimizer_class: type[torch.optim.Optimizer] = torch.optim.Adam,
        optimizer_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        entity_space = _entity_space(observation_space, action_space)
        if use_sde is None:
            raise TypeError(
                "RogueNetPolicy: the algorithm did not pass use_sde; MaskablePPO never does. Entity"
                " observations contain their masks, so use stable_baselines3.PPO (in your own code, pass"
                " use_sde=False)."
            )
        if foreign := sorted(_OF_OTHER_POLICIES & options.keys()):
            raise TypeError(
                f"RogueNetPolicy: {foreign[0]!r} is an option of Stable-Baselines3's own policies. Here stand"
                " those of RogueNet, such as d_model and n_layer, optimizer_class and optimizer_kwargs"
            )
        if use_sde:
            raise ValueError(
                "use_sde: expected False, got True: RogueNet samples continuous actions with its own noise"
            )
        super().__init__(
            observation_space,
            action_space,
            optimizer_class=optimizer_class,
            optimizer_kwargs=_with_adam_eps(optimizer_class, optimizer_kwargs),
        )
        self._layout = self.observation_space.layout
        self._network = RogueNet(entity_space, entity_space.actions, **options)
        self._learned_from: EntityBatch | None = None  # the rollout of an update, until it moves statistics
        self._has_begun = False  # whether there are statistics for sure; looked up before the first action
        self.optimizer = self.optimizer_class(
            self.parameters(),
            lr=lr_schedule(1),  # type: ignore[call-arg] # each class has its own
            **self.optimizer_kwargs,
        )

    # -- what Stable-Baselines3 asks of an actor-critic policy ----------------------------------------------

    def forward(
        self, obs: Mapping[str, Tensor], deterministic: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Act in a rollout: actions (M,) with the raw ones, values (B,) and log-probabilities (B,).

        Without gradients.
        """
        batch = self._unpacked(obs)
        if not self._has_begun:
            if not self._has_statistics():
                self._network.update_normalization(batch)
            self._has_begun = True
        result = self._network.act(batch, _generator(deterministic), deterministic)
        log_probs = np.zeros(len(batch), np.float32)
        for of_action in result.log_probs.values():
            log_probs += np.bincount(of_action.sequence_indices(), of_action.values, len(batch))
        actions = self._layout.pack_actions(result.actions, result.raw)
        return torch.from_numpy(actions), torch.from_numpy(result.values), torch.from_numpy(log_probs)

    def evaluate_actions(
        self,
        obs: RolloutSteps | Mapping[str, Tensor],
        actions: Mapping[str, RaggedArray] | Tensor | NDArray[Any],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Values, log-probabilities and entropies (B,) of `actions` taken at `obs`, with gradients.

        `actions` are as in `ActResult.raw`, or one array (M,) of `forward` or of `predict`. The latter has
        the actions alone: continuous ones count as the raw numbers that lie at them.
        """
        if isinstance(obs, RolloutSteps):
            batch = obs.batch
            if self.training:
                self._learned_from = obs.rollout
        else:
            batch = self._unpacked(obs)
        if not isinstance(actions, Mapping):
            actions = self._raw(batch, actions.cpu().numpy() if isinstance(actions, Tensor) else actions)
        evaluation = self._network.evaluate(batch, actions)
        log_probs, entropies = (evaluation.values.new_zeros(len(batch)) for _ in range(2))
        for name, chosen in actions.items():
            steps = torch.from_numpy(chosen.sequence_indices()).to(evaluation.values.device)
            log_probs = log_probs.index_add(0, steps, evaluation.log_probs[name])
            entropies = entropies.index_add(0, steps, evaluation.entropies[name])
        return evaluation.values, log_probs, entropies

    def predict_values(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Values (B,), without gradients."""
        return torch.from_numpy(self._network.value(self._unpacked(obs)))

    def _predict(self, observation: Mapping[str, Tensor], deterministic: bool = False) -> Tensor:  # type: ignore[override]
        """Actions (M,)."""
        result = self._network.act(self._unpacked(observation), _generator(deterministic), deterministic)
        return torch.from_numpy(self._layout.pack_actions(result.actions))

    def predict(  # type: ignore[override] # besides packed batches, batches and single observations
        self,
        observation: Mapping[str, Any] | EntityBatch,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[Any, tuple[NDArray[Any], ...] | None]:
        """Act on what an environment shows.

        Args:
            observation: what a `RaggedVecEnv` returned, an `EntityBatch`, or one observation of a single
                entity environment (a plain dict).
            state, episode_start: there is no memory; `state` is handed back.
            deterministic: take the most probable choices.

        Returns:
            the actions, and `state`. For one observation a dict from action name to array, as the `step` of
            that environment takes it; else an array (M,) for the `step` of a `RaggedVecEnv`.

        Raises:
            ObservationError: not an observation of this policy's space.
            ValueError: the pair that a Gymnasium environment's `reset` returns.
        """
        self.set_training_mode(False)
        if isinstance(observation, tuple):
            raise ValueError(
                "predict: expected an observation, got a tuple. Unpack it: `obs, info = env.reset()`."
            )
        batch, is_batch = self._read(observation)
        actions = self._network.act(batch, _generator(deterministic), deterministic).actions
        if is_batch:
            return self._layout.pack_actions(actions), state
        return {name: chosen.values for name, chosen in actions.items()}, state

    def obs_to_tensor(  # type: ignore[override]
        self, observation: Mapping[str, Any] | EntityBatch
    ) -> tuple[dict[str, Tensor], bool]:
        """An observation as `predict` takes it, as tensors on the CPU, and whether it is a batch."""
        batch, is_batch = self._read(observation)
        return {key: torch.from_numpy(array) for key, array in self._layout.pack(batch).items()}, is_batch

    # -- the network ----------------------------------------------------------------------------------------

    @property
    def network(self) -> RogueNet:
        """The network itself: acts on `EntityBatch`es, and can be trained by `entitize.PPO`."""
        self._move_statistics()
        return self._network

    @classmethod
    def from_policy(cls, network: RogueNet, **kwargs: Any) -> RogueNetPolicy:
        """A policy with the options, and a copy of the weights and statistics, of `network`.

        It predicts; an algorithm makes its own policy, into which `load_network` copies a network.

        Args:
            kwargs: of the constructor, such as `optimizer_class`.
        """
        policy = cls(
            PackedBatchSpace(network.observation_space),
            PackedActionSpace(network.action_space),
            cls._dummy_schedule,
            use_sde=False,
            **network.config,
            **kwargs,
        )
        policy.load_network(network)
        return policy

    def load_network(self, network: RogueNet) -> None:
        """Copy weights and statistics of `network`, which `entitize.PPO` may have trained.

        The optimizer's moments stay as they are.

        Raises:
            ValueError: a network for other spaces, of another size, or with options that make other numbers
                of the same weights.
        """
        mine = self._network
        if network.observation_space != mine.observation_space:
            raise ValueError(
                f"the network: expected one for {mine.observation_space}, got one for"
                f" {network.observation_space}"
            )
        there, here = network.state_dict(), mine.state_dict()
        for name in [*here, *(n for n in there if n not in here)]:
            shapes = [tuple(side[name].shape) if name in side else "absent" for side in (here, there)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"another network: {name} is {shapes[0]} here, {shapes[1]} there")
        if difference := mine.settings.difference(network.settings):
            raise ValueError(f"another network: {difference}")
        mine.load_state_dict(there)
        self._forget_rollout()

    # -- modes and storage ----------------------------------------------------------------------------------

    def set_training_mode(self, mode: bool) -> None:
        """Algorithms turn it off to collect a rollout and on to learn from it."""
        if not mode:
            self._move_statistics()
        super().set_training_mode(mode)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        self._move_statistics()
        return super().state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        result = super().load_state_dict(*args, **kwargs)
        self._forget_rollout()
        return result

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lr_schedule": self._dummy_schedule,
            "use_sde": False,
            "optimizer_class": self.optimizer_class,
            "optimizer_kwargs": self.optimizer_kwargs,
            **self._network.config,
        }

    # -- what other algorithms would ask for ----------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Return a module or a parameter.

        Raises:
            AttributeError: there is none of this name; RecurrentPPO asks for `lstm_actor`.
        """
        if name == "lstm_actor":
            raise AttributeError(
                "RecurrentPPO can't train RogueNetPolicy, which has no memory; use stable_baselines3.PPO"
            )
        return super().__getattr__(name)

    def get_distribution(self, obs: Any) -> NoReturn:
        """Unsupported: TRPO asks for it.

        Raises:
            TypeError: always; RogueNetPolicy has no distribution of Stable-Baselines3.
        """
        raise TypeError(
            "TRPO needs a distribution of Stable-Baselines3, which RogueNetPolicy does not have;"
            " use stable_baselines3.PPO or A2C. Probabilities: policy.network.explain(batch)"
        )

    # -- inside ---------------------------------------------------------------------------------------------

    def _unpacked(self, obs: Mapping[str, Tensor]) -> EntityBatch:
        """The batch behind the tensors of a `RaggedVecEnv`'s observation; statistics are up to date then."""
        self._move_statistics()
        return self._layout.unpack({key: tensor.cpu().numpy() for key, tensor in obs.items()})

    def _raw(self, batch: EntityBatch, packed: NDArray[Any]) -> dict[str, RaggedArray]:
        """The raw actions in `packed`; if there are none, those that give its actions."""
        actions = self._layout.unpack_actions(batch, packed, as_raw=True)
        has_raw = len(packed) > sum(chosen.values.size for chosen in actions.values())
        return actions if has_raw else self._network.as_raw(actions)

    def _read(self, observation: Mapping[str, Any] | EntityBatch) -> tuple[EntityBatch, bool]:
        """An observation from outside as a batch, and whether it was one."""
        if isinstance(observation, EntityBatch):
            return observation, True
        if not isinstance(observation, Mapping):
            raise ObservationError(
                f"predict: expected a dict or an EntityBatch as observation, got {type(observation).__name__}"
                ". Environments of entitize.make(name) and entitize.wrap(env) give such observations"
            )
        if "actions" not in observation:  # plain observations have it, packed batches never
            return self._layout.unpack_checked(observation), True
        space = self._network.observation_space
        problem = space.problem(observation)
        if problem:
            raise ObservationError(problem)
        return batch_observations(space, [observation]), False

    def _has_statistics(self) -> bool:
        return any(bool(m.count > 0) for m in self._network.modules() if isinstance(m, InputNorm))

    def _move_statistics(self) -> None:
        """Update the statistics by the rollout of the last update, once."""
        rollout, self._learned_from = self._learned_from, None
        if rollout is not None:
            self._network.update_normalization(rollout)

    def _forget_rollout(self) -> None:
        """Statistics came from elsewhere."""
        self._learned_from = None
        self._has_begun = False


def _generator(deterministic: bool) -> np.random.Generator:
    """Random numbers that follow from torch's generator, which stays as it is where none are needed."""
    if deterministic:
        return np.random.default_rng(0)
    return np.random.default_rng(int(torch.randint(2**63 - 1, ())))


def _with_adam_eps(
    optimizer_class: type[torch.optim.Optimizer], optimizer_kwargs: dict[str, Any] | None
) -> dict[str, Any]:
    is_adam = isinstance(optimizer_class, type) and issubclass(optimizer_class, torch.optim.Adam)
    defaults = {"eps": _ADAM_EPS} if is_adam else {}
    return {**defaults, **(optimizer_kwargs or {})}


def _entity_space(observation_space: Any, action_space: Any) -> EntitySpace:
    """The entity space behind the spaces that an algorithm passes on."""
    if not isinstance(observation_space, PackedBatchSpace) or not isinstance(action_space, PackedActionSpace):
        raise TypeError(
            "RogueNetPolicy: expected an environment of entitize.sb3.make_vec or vec_env, without a wrapper"
            f" of observations or actions, got {observation_space!r} and {action_space!r}"
        )
    if observation_space.entity_space.actions != action_space.entity_actions:
        raise TypeError(
            f"the spaces do not match: {observation_space!r} is not for the actions of {action_space!r}"
        )
    return observation_space.entity_space
