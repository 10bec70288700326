"""Register "entitize/Padded-v0". Imported by `import entitize`, so it imports nothing heavy."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..envs.errors import check_option_names, one_of
from ..envs.registration import register_env

if TYPE_CHECKING:
    from .gymnasium import GymnasiumFace

PADDED_ID = "entitize/Padded-v0"


def register() -> None:
    """Register "entitize/Padded-v0": any entity environment as fixed arrays, for trainers that take ids."""
    register_env(PADDED_ID, f"{__name__}:make_padded")


def make_padded(
    env_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    layout: str = "padded",
    render_mode: str | None = None,
    **options: Any,
) -> GymnasiumFace:
    """Make an environment by its name and show it with fixed arrays.

        env = gymnasium.make("entitize/Padded-v0", env_id="MineSweeper", maxima=6, flat_actions=True)

    Args:
        env_id: what `ez.make` takes: "MineSweeper", "Procgen/coinrun", "module:function", ...
        env_kwargs: options of that environment.
        layout: "padded" or "flat", as for `ez.to_gymnasium`.
        options: those of `ez.to_gymnasium`: maxima, max_actors, beyond, illegal, flat_actions, separator.

    Raises:
        ValueError: `env_id` or `maxima` is missing, or an option does not fit.
        gymnasium.error.NameNotFound, ImportError, TypeError: as `ez.make` and `ez.to_gymnasium` do.
    """
    from .environment_resolver import make
    from .gymnasium import to_gymnasium

    if env_id is None:
        raise ValueError(
            f"{PADDED_ID}: env_id is missing: expected the name of an entity environment. Pass"
            " env_id='MineSweeper', or the name of another one"
        )
    one_of(f"{PADDED_ID}: layout", layout, ("padded", "flat"))
    check_option_names(PADDED_ID, options, [*inspect.signature(to_gymnasium).parameters][2:])
    if not isinstance(env_kwargs, Mapping | None):
        raise TypeError(f"{PADDED_ID}: env_kwargs: expected a mapping of options, got {env_kwargs!r}")
    kwargs = dict(env_kwargs or {})
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    env = make(env_id, **kwargs)
    try:
        return to_gymnasium(env, layout, **options)  # type: ignore[arg-type]
    except BaseException:
        env.close()
        raise
