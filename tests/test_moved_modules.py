"""Pickles of 0.1: zip files of Stable-Baselines3 name modules that have moved since."""

from __future__ import annotations

import importlib
import pickle

import pytest

#: Module and class in files that 0.1 (commit 0e21f68) saved -> the module that has the class now.
NAMED = {
    ("envs.action_spaces", "Categorical"): "envs.actions.categorical",
    ("envs.action_spaces", "EntityActionSpace"): "envs.actions.entity_action_space",
    ("envs.action_spaces", "GlobalCategorical"): "envs.actions.categorical",
    ("envs.action_spaces", "RaggedSpace"): "envs.actions.array_checks",
    ("envs.action_spaces", "SelectEntity"): "envs.actions.select_entity",
    ("envs.continuous", "Continuous"): "envs.actions.continuous",
    ("envs.multi_categorical", "MultiCategorical"): "envs.actions.multi_categorical",
    ("envs.packed_spaces", "PackedActionSpace"): "envs.batch.packed_spaces",
    ("envs.packed_spaces", "PackedBatchSpace"): "envs.batch.packed_spaces",
    ("envs.padded_space", "PaddedSpace"): "envs.batch.padding",
    ("envs.padding", "PaddedLayout"): "envs.batch.padding",
    ("envs.spaces", "EntitySpace"): "envs.spaces.entity_space",
    ("policies.sb3.extractor", "RogueNetExtractor"): "trainers.sb3.extractor",
    ("policies.sb3.policy", "RogueNetPolicy"): "trainers.sb3.sb3_policy",
    ("trainers.sb3.buffer", "RaggedRolloutBuffer"): "trainers.sb3.buffer",
}


@pytest.mark.parametrize(("module", "name"), NAMED)
def test_a_class_is_found_under_the_name_of_its_old_module(module: str, name: str) -> None:
    found = pickle.loads(f"centitize.{module}\n{name}\n.".encode())
    assert found is getattr(importlib.import_module(f"entitize.{NAMED[module, name]}"), name)


def test_what_never_was_a_module_is_none() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("entitize.envs.action_space")
