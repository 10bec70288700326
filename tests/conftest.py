"""For every test."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

# Torch's threads spin while they wait: on a busy machine two are many times slower than one for small nets.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest imports the checkout's __init__.py too, by the folder's name; the first to come registers the games.
import entitize  # noqa: F401
import pytest
from hypothesis import HealthCheck, settings

# The same examples in each run, on machines that are slow at times: no test is about that.
COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("all", max_examples=60, **COMMON)
settings.register_profile("quick", max_examples=15, **COMMON)
settings.load_profile("all")

# A shell starts what runs in the background without Ctrl-C, and tests that press it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# entity_gym needs ragged-buffer, of which there is no build for Python 3.12.
collect_ignore = ["adapters/entity_gym/test_entity_gym_from.py", "adapters/entity_gym/test_entity_gym_to.py"]
if importlib.util.find_spec("ragged_buffer") is not None:
    collect_ignore.clear()

TESTS = Path(__file__).parent
#: `make test` runs the first case of each test in these files that is not marked `full`. Together they touch
#: every adapter, engine, kind of action and the command line, in at most two minutes. `make test-all` runs
#: everything.
QUICK = {
    ".": "docs process project",
    "adapters": (
        "composite_faces conformance entity_classes gymnasium_actions gymnasium_episodes gymnasium_faces"
        " gymnasium_flat_actions gymnasium_limits gymnasium_spaces gymnasium_views gymnasium_wrap"
        " microrts_env microrts_options microrts_rewards"
        " procgen_decode procgen_env procgen_visible sb3_vec_env"
    ),
    "adapters/atari": "atari_env atari_screen",
    "adapters/entity_gym": "entity_gym_to",
    "adapters/griddly": "griddly_env griddly_features griddly_masks",
    "adapters/programs": "programs",
    "adapters/pettingzoo": "lanes opponents team to_pettingzoo turns",
    "datasets": "recording replay",
    "envs": (
        "batch_actions batch_buffer continuous_action entity_batch entity_checker entity_env entity_games"
        " entity_spaces frames list_vector mine_sweeper_document multi_categorical native_vector_env"
        " packed_batches padding_layout small_games snake_games"
    ),
    "experiments": "agents check_command cli config_file environments",
    "experiments/queue": "run_records",
    "experiments/statistics": "curves",
    "policies/export": "onnx_export onnx_steps",
    "policies": "composite_head engine_choice engine_limits fused_network gaussian_head runtime sb3_policy",
    "ragged": "ragged_array ragged_buffer ragged_building ragged_combine",
    "web": "multi_snake",
    "trainers": (
        "advantages checkpoints fused_learner graph_learner ppo_config ppo_losses ppo_training save_policy"
        " self_play training_loops"
    ),
    "viewer": "recording scene",
}
QUICK_FILES = {
    TESTS / folder / f"test_{name}.py" for folder, names in QUICK.items() for name in names.split()
}
#: Tests of which `make test` runs every case.
ALL_CASES = {"test_each_adapter_keeps_the_rules"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="what `make test` runs: see tests/conftest.py")
    parser.addoption("--rest", action="store_true", help="what `--quick` leaves out or tries less often")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        settings.load_profile("quick")
    config.addinivalue_line("markers", "full: left to `make test-all`")
    missing = [str(path) for path in sorted(QUICK_FILES) if not path.exists()]
    if missing:
        raise pytest.UsageError(f"QUICK in tests/conftest.py names files that do not exist: {missing}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep `--quick` from importing the other files: their peers alone take as long as many tests."""
    if config.getoption("--quick") and collection_path.suffix == ".py" and collection_path not in QUICK_FILES:
        return True
    return None


def pytest_collection_finish() -> None:
    """Take the imported modules out of what each garbage collection looks through."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of `--quick` or of `--rest`."""
    if not (config.getoption("--quick") or config.getoption("--rest")):
        return
    seen: set[tuple[Path, str]] = set()
    chosen, left_out = [], []
    for item in items:
        test = item.path, item.nodeid.partition("[")[0]
        first = test not in seen or getattr(item, "originalname", None) in ALL_CASES
        seen.add(test)
        is_quick = first and item.path in QUICK_FILES and item.get_closest_marker("full") is None
        if config.getoption("--rest"):
            is_chosen = not is_quick or hasattr(getattr(item, "obj", None), "hypothesis")
        else:
            is_chosen = is_quick
        (chosen if is_chosen else left_out).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=left_out)
