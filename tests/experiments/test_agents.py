from __future__ import annotations

from pathlib import Path

import numpy as np
from entitize import EntitySpace, make_vec
from entitize.envs import EntityBatch
from entitize.experiments import UserError, load_network
from entitize.trainers import load_policy

from facts import raises


def test_an_agent_plays_where_there_is_more_to_see_than_in_training(trained: Path) -> None:
    with make_vec("MineSweeper", num_envs=3) as venv:
        space = venv.single_observation_space
        batch, _ = venv.reset(seed=2)
    features = space.entities["Robot"]
    wide = EntitySpace(
        {**space.entities, "Robot": (*features[::-1], "age")}, space.actions, space.global_features
    )
    robots = batch.entities["Robot"]
    aged = np.concatenate([robots.values[:, ::-1], np.full((robots.num_items, 1), 9, np.float32)], 1)
    seen = EntityBatch({**batch.entities, "Robot": robots.with_values(aged)}, batch.globals, batch.actions)
    np.testing.assert_array_equal(load_network(trained, wide).value(seen), load_policy(trained).value(batch))


def test_an_agent_that_misses_a_feature_is_told(trained: Path) -> None:
    space = load_policy(trained).observation_space
    blind = EntitySpace({**space.entities, "Robot": ()}, space.actions, space.global_features)
    with raises(UserError, "entity type 'Robot'", "x, y"):
        load_network(trained, blind)
