"""Trainers of other libraries train RogueNet on entity environments, by their own front doors.

Masked choices are errors in these environments (`illegal="error"`), unless the trainer knows no masks.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import entitize as ez
import gymnasium
import pytest
import torch
from torch import Tensor, nn

CHECKOUT = Path(__file__).resolve().parents[2]

# Warnings of the other libraries, such as of the gym that TorchRL imports, are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")

PADDED = "entitize/Padded-v0"
#: Two couriers select parcels; what is no parcel, or no courier, is masked.
COURIERS: dict[str, Any] = {
    "env_id": "couriers:Couriers",
    "maxima": {"Courier": 2, "Parcel": 8},
    "max_actors": {"fetch": 2},
    "flat_actions": True,
}
#: One choice per step, of which nothing is masked.
HUNT: dict[str, Any] = {"env_id": "TreasureHunt", "maxima": 8, "flat_actions": True}
SIZES: dict[str, Any] = {"d_model": 8, "n_layer": 1, "n_head": 2}


def make_couriers() -> gymnasium.Env[Any, Any]:
    return gymnasium.make(PADDED, **COURIERS)


def make_hunt() -> gymnasium.Env[Any, Any]:
    return gymnasium.make(PADDED, **HUNT)


class Changes:
    """Which parameters of a network have changed since."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net
        self.before = {name: value.detach().clone() for name, value in net.named_parameters()}

    def share(self) -> float:
        changed = [bool((value != self.before[name]).any()) for name, value in self.net.named_parameters()]
        return sum(changed) / len(changed)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def test_torchrl() -> None:
    pytest.importorskip("torchrl")
    from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
    from torchrl.collectors import Collector
    from torchrl.envs import GymEnv, SerialEnv
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    from torchrl_ppo import Network, choices_of_couriers

    env = SerialEnv(2, lambda: GymEnv(PADDED, categorical_action_encoding=True, **COURIERS))
    network = Network(make_couriers().observation_space)
    sampling = ProbabilisticTensorDictModule(
        ["logits"],
        ["action"],
        distribution_class=choices_of_couriers,
        return_log_prob=True,
        log_prob_key="action_log_prob",
    )
    actor = ProbabilisticTensorDictSequential(network, sampling)
    (rollout,) = Collector(
        env, actor, frames_per_batch=128, total_frames=128, auto_register_policy_transforms=False
    )
    assert rollout["action"].shape == (2, 64, 2)
    chosen = rollout["actions/fetch/mask"].gather(-1, rollout["action"][..., None])[..., 0]
    assert (chosen == rollout["actions/fetch/presence"]).all()

    rollout = rollout.exclude("state_value")
    with torch.no_grad():
        GAE(gamma=0.99, lmbda=0.95, value_network=network, deactivate_vmap=True)(rollout)
    losses = ClipPPOLoss(actor, network, functional=False)(rollout.reshape(-1))
    changes = Changes(network)
    (losses["loss_objective"] + losses["loss_critic"]).backward()
    torch.optim.Adam(network.parameters()).step()
    assert changes.share() > 0.8


def test_skrl(tmp_path: Path) -> None:
    pytest.importorskip("skrl")
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, Model, MultiCategoricalMixin
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils.spaces.torch import unflatten_tensorized_space

    observation_space = make_couriers().observation_space
    net = ez.PaddedActorCritic(observation_space, **SIZES)

    class Policy(MultiCategoricalMixin, Model):  # type: ignore[misc]
        def __init__(self, **spaces: Any) -> None:
            Model.__init__(self, **spaces)
            MultiCategoricalMixin.__init__(self)
            self.net = net

        def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict[str, Any]]:
            return self.net(unflatten_tensorized_space(observation_space, inputs["observations"]))[0], {}

    class Value(DeterministicMixin, Model):  # type: ignore[misc]
        def __init__(self, **spaces: Any) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.net = net

        def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict[str, Any]]:
            values = self.net(unflatten_tensorized_space(observation_space, inputs["observations"]))[1]
            return values[:, None], {}

    env = wrap_env(gymnasium.make_vec(PADDED, 2, "sync", **COURIERS))
    spaces = {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "device": env.device,
    }
    models = {"policy": Policy(**spaces), "value": Value(**spaces)}
    config = PPO_CFG(rollouts=32, learning_epochs=1, mini_batches=2)
    config.experiment.directory = str(tmp_path)
    config.experiment.write_interval = 0
    config.experiment.checkpoint_interval = 0
    agent = PPO(models=models, memory=RandomMemory(memory_size=32, num_envs=2), cfg=config, **spaces)
    changes = Changes(net)
    SequentialTrainer(
        env=env,
        agents=agent,
        cfg={
            "timesteps": 64,
            "headless": True,
            "disable_progressbar": True,
            "close_environment_at_exit": False,
        },
    ).train()
    assert changes.share() > 0.8


def test_stable_baselines3_makes_environments_without_pictures_by_name() -> None:
    from stable_baselines3.common.env_util import make_vec_env

    options = {"env_id": "TreasureHunt", "maxima": 8, "flat_actions": True, "illegal": "replace"}
    venv = make_vec_env(PADDED, 2, env_kwargs=options)  # with render_mode="rgb_array" first
    assert {len(array) for array in venv.reset().values()} == {2}


def test_stable_baselines3_and_maskable_ppo() -> None:
    pytest.importorskip("sb3_contrib")
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    options = {
        "policy_kwargs": {
            "features_extractor_class": ez.sb3.RogueNetExtractor,
            "features_extractor_kwargs": SIZES,
            "net_arch": [],
        },
        "n_steps": 32,
        "batch_size": 32,
        "n_epochs": 1,
    }
    venv = make_vec_env(PADDED, 2, env_kwargs={**COURIERS, "illegal": "replace"})
    for model in (
        PPO("MultiInputPolicy", venv, **options),
        MaskablePPO("MultiInputPolicy", make_vec_env(PADDED, 2, env_kwargs=COURIERS), **options),
    ):
        changes = Changes(model.policy.features_extractor)
        model.learn(128)
        assert changes.share() > 0.8


def test_tianshou() -> None:
    pytest.importorskip("tianshou")
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.discrete import dist_fn_categorical_from_logits

    env = make_hunt()
    net = ez.PaddedActorCritic(env.observation_space, **SIZES)

    def tensors(observations: Any) -> dict[str, Tensor]:
        return {name: torch.as_tensor(observations[name]) for name in observations.get_keys()}

    class Actor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
            return self.net(tensors(obs))[0], state

    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, obs: Any, **_: Any) -> Tensor:
            return self.net(tensors(obs))[1][:, None]

    policy = ProbabilisticActorPolicy(
        actor=Actor(),
        dist_fn=dist_fn_categorical_from_logits,
        action_space=env.action_space,
        action_scaling=False,
    )
    ppo = PPO(policy=policy, critic=Critic(), optim=AdamOptimizerFactory(lr=1e-3))
    collector = Collector(ppo, DummyVectorEnv([make_hunt] * 2), VectorReplayBuffer(2 * 32, 2))
    collector.reset()
    changes = Changes(net)
    ppo.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=128,
            collection_step_num_env_steps=64,
            batch_size=32,
            update_step_num_repetitions=1,
            test_in_training=False,
            verbose=False,
            show_progress=False,
        )
    )
    assert changes.share() > 0.8


# -- what is not installed beside Entitize: only when asked for ---------------------------------------------

ENVIRONMENTS = os.environ.get("ENTITIZE_TRAINERS")
installs = pytest.mark.skipif(ENVIRONMENTS is None, reason="installs gigabytes: ENTITIZE_TRAINERS=folder")
CLEANRL = os.environ.get("ENTITIZE_CLEANRL")


def python_with(name: str, package: str) -> Path:
    """The Python of an environment in the folder, with `package` and Entitize; made if it does not exist."""
    assert ENVIRONMENTS is not None
    folder = Path(ENVIRONMENTS).resolve() / name
    python, is_made = folder / "bin" / "python", folder / "made"
    if not is_made.exists():
        venv.create(folder, with_pip=True, clear=True)
        pins = re.findall(r"^torch==.*$", (CHECKOUT / "constraints.txt").read_text(), re.M)
        (folder / "torch.txt").write_text("\n".join(pins))  # this build alone: others take gigabytes
        for packages in (package, f"{CHECKOUT}[train]"):  # one after the other: some ask for old Gymnasiums
            command = [python, "-m", "pip", "install", "-q", "-c", folder / "torch.txt", packages]
            subprocess.run(command, check=True)
        is_made.touch()
    return python


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@installs
@pytest.mark.parametrize(
    ("program", "package"),
    [("rllib_ppo.py", "ray[rllib]==2.60.0"), ("sample_factory_ppo.py", "sample-factory==2.1.1")],
)
def test_programs_of_trainers_that_need_another_gymnasium(program: str, package: str, tmp_path: Path) -> None:
    python = python_with(program.removesuffix("_ppo.py"), package)
    assert "trained" in run(python, CHECKOUT / "examples" / program, "--steps", "2048", cwd=tmp_path)


@installs
def test_rl_zoo(tmp_path: Path) -> None:
    python = python_with("rl_zoo", "rl_zoo3==2.9.2")
    (page,) = re.findall(
        r"^## RL Zoo\n.*?^```python no-run\n(.*?)^```.*?^(    python -m rl_zoo3.*?)\n\n",
        (CHECKOUT / "docs" / "other-trainers.md").read_text(),
        re.M | re.S,
    )
    (tmp_path / "hyperparams.py").write_text(page[0])
    _, *options = shlex.split(page[1].replace("\\\n", " "))
    run(python, *options, "-n", "256", "--eval-episodes", "1", cwd=tmp_path)
    assert list(tmp_path.glob("logs/ppo/entitize-Padded-v0_1/*.zip"))


@pytest.mark.skipif(CLEANRL is None, reason="needs CleanRL's script: ENTITIZE_CLEANRL=.../cleanrl/ppo.py")
def test_cleanrl(tmp_path: Path) -> None:
    assert CLEANRL is not None
    (tmp_path / "my_games.py").write_text(
        "import entitize, gymnasium\n"
        f"options = dict({HUNT}, layout='flat')\n"
        f"gymnasium.register('Hunt-v0', lambda: gymnasium.make({PADDED!r}, **options))\n"
    )
    options = ["--env-id", "my_games:Hunt-v0", "--total-timesteps", "512", "--num-steps", "64"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    assert run(sys.executable, CLEANRL, *options, cwd=tmp_path, PYTHONPATH=path).count("SPS") == 2
