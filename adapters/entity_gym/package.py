"""The `entity_gym` package, imported with care: it warns, and pip does not install it as other packages."""

from __future__ import annotations

import warnings

try:
    with warnings.catch_warnings():
        # It says np.bool8, which NumPy 1.24 to 1.26 deprecate and NumPy 2 lacks.
        warnings.filterwarnings("ignore", ".*np.bool8.*", DeprecationWarning)
        from entity_gym import env as entity_gym
except ModuleNotFoundError as error:
    missing = "entity_gym" if (error.name or "").startswith("entity_gym") else error.name
    raise ImportError(
        f"Entity Gym needs the package {missing}, and Python 3.11 with NumPy 1:"
        " pip install --no-deps --ignore-requires-python entity-gym &&"
        " pip install 'ragged-buffer==0.4.8' msgpack msgpack-numpy cloudpickle tqdm click 'numpy<2'"
    ) from error
except AttributeError as error:  # np.bool8
    raise ImportError(f"entity_gym needs NumPy 1: pip install 'numpy<2' ({error})") from error

__all__ = ["entity_gym"]
