"""Checks of a vector environment before a policy plays in it."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from ..errors import named_kind
from ..spaces import EntitySpace
from .vector_env import EntityVectorEnv

#: Advice where policy and environments are swapped.
POLICY_FIRST = ". The policy comes first, then the environments"


def check_vector_env(where: str, venv: object, order: str = "") -> None:
    """Check that `venv` is an entity vector environment.

    Args:
        order: advice for a policy in its place.

    Raises:
        TypeError: it is something else; the message says how to make one.
    """
    if isinstance(venv, EntityVectorEnv):
        return
    hint = ""
    if isinstance(venv, str):
        hint = f". Make it: entitize.make_vec({venv!r})"
    elif isinstance(venv, gymnasium.vector.VectorWrapper) and isinstance(venv.unwrapped, EntityVectorEnv):
        hint = ". Derive it from entitize.vector.EntityVectorWrapper, not from gymnasium.vector.VectorWrapper"
    elif isinstance(venv, gymnasium.vector.VectorEnv):
        hint = ". Wrap it: entitize.wrap_vec(venv)"
    elif isinstance(venv, gymnasium.Env):
        hint = ". Make one: entitize.make_vec, or entitize.vector.ListVectorEnv([make_env] * num_envs)"
    elif hasattr(venv, "act"):
        hint = order
    elif hasattr(venv, "step_wait"):
        hint = ", which is for algorithms of Stable-Baselines3. Make one: entitize.make_vec"
    raise TypeError(f"{where}: expected an EntityVectorEnv, got {named_kind(venv)}{hint}")


def check_fits(where: str, policy: Any, venv: EntityVectorEnv) -> None:
    """Check that `policy` knows the actions of `venv`, and reads the features that it observes.

    Only what a policy says of itself is checked: `action_space`, and `reads` or else `observation_space`.

    Raises:
        ValueError: the names of the actions differ, or the features of an entity type, or of the game.
    """
    known = getattr(policy, "action_space", None)
    if known is not None and set(known) != set(venv.single_action_space):
        expected, got = (", ".join(map(repr, names)) for names in (venv.single_action_space, known))
        raise ValueError(f"{where}: expected a policy with the environments' actions {expected}, got {got}")
    reads = getattr(policy, "reads", None) or getattr(policy, "observation_space", None)
    if not isinstance(reads, EntitySpace):
        return
    space = venv.single_observation_space
    parts = [
        (f"entity type {name!r}", features, reads.entities.get(name, features))
        for name, features in space.entities.items()
    ]
    for part, shown, read in (*parts, ("global features", space.global_features, reads.global_features)):
        if read != shown:
            raise ValueError(
                f"{where}: {part}: expected a policy that reads {', '.join(shown) or 'none'}, got one that"
                f" reads {', '.join(read) or 'none'}. A network that knows some of these by name reads them"
                " after policy.adapt_to(venv.single_observation_space)"
            )


def check_autoreset(where: str, venv: EntityVectorEnv) -> None:
    """Check that `venv` resets in the step that ends an episode.

    Raises:
        ValueError: it does not; the message says how to make one that does.
    """
    mode = venv.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(
            f"{where}: autoreset mode of {type(venv).__name__}: expected SAME_STEP, got {mode}. The mode of a"
            " native vector environment cannot be changed. Wrap single environments: ez.wrap_vec("
            "gymnasium.make_vec(…, vectorization_mode='sync')), or 'async' (AsyncVectorEnv, with shared"
            " memory)."
        )
