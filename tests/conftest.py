"""For every test."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

# Torch's threads spin while they wait: on a busy machine two are many times slower than one for small nets.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest imports the checkout's __init__.py too, by the folder's name; the first to come registers the games.
import entitize  # noqa: F401
import pytest
from hypothesis import HealthCheck, settings

# Machines are slow at times; no test is about that.
settings.register_profile("entitize", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("entitize")

# A shell starts what runs in the background without Ctrl-C, and tests that press it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# entity_gym needs ragged-buffer, of which there is no build for Python 3.12.
collect_ignore = ["adapters/entity_gym/test_entity_gym_from.py", "adapters/entity_gym/test_entity_gym_to.py"]
if importlib.util.find_spec("ragged_buffer") is not None:
    collect_ignore.clear()

#: Files that `make test` leaves to `make test-all`: they train until something is learned, play whole games,
#: or start many processes, and what they touch is touched by the others too.
ONLY_IN_ALL = {
    "adapters/test_microrts_jvm.py",
    "adapters/test_microrts_perspective.py",
    "adapters/test_microrts_targets.py",
    "adapters/test_microrts_watch.py",
    "adapters/test_microrts_workers.py",
    "adapters/pettingzoo/test_games_kaz.py",
    "adapters/pettingzoo/test_games_magent.py",
    "adapters/test_procgen_docs.py",
    "adapters/test_procgen_fuzz.py",
    "benchmarks/test_suite.py",
    "envs/test_game_optima.py",
    "experiments/ablations/test_ablation_experiment.py",
    "experiments/ablations/test_studies.py",
    "experiments/microrts/test_match_evaluation.py",
    "experiments/queue/test_run_queue.py",
    "experiments/queue/test_training_jobs.py",
    "experiments/test_demo.py",
    "policies/test_rogue_net_reference.py",
    "policies/test_static_streams.py",
    "ragged/test_compiled.py",
    "trainers/test_engines_benchmark.py",
    "trainers/test_learning.py",
    "trainers/test_opponents.py",
    "trainers/test_sb3_parity.py",
    "trainers/test_sb3_training.py",
}
#: Tests of which `make test` runs every case: they go through the adapters and the engines.
ALL_CASES = {"test_wrapped_environments_keep_the_rules", "test_engine_choice.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="the first case of each test, without files that take long"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what `make test` runs, if `--quick` is given: about a quarter of the time of all tests."""
    if not config.getoption("--quick"):
        return
    seen: set[tuple[Path, str]] = set()
    chosen, left_out = [], []
    for item in items:
        test = item.path, item.nodeid.partition("[")[0]
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        every_case = not ALL_CASES.isdisjoint({item.path.name, getattr(item, "originalname", item.name)})
        quick = file not in ONLY_IN_ALL and (every_case or test not in seen)
        seen.add(test)
        (chosen if quick else left_out).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=left_out)
