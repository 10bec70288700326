"""Frames: spaces that show a picture at each step, and batches that hold them."""

from __future__ import annotations

from typing import Any

import entitize as ez
import numpy as np
import pytest
from entitize.envs import (
    EntityBatch,
    EntityBatchSpace,
    PackedLayout,
    PaddedLayout,
    batch_observations,
    concatenate_batches,
    schema_difference,
    space_from_schema,
    space_schema,
    unbatch_observation,
)
from entitize.envs.vector.workers import StepLayout

from facts import raises

ACTIONS = ez.EntityActionSpace({"Pick": ez.GlobalCategorical(3)})
PLAIN = ez.EntitySpace({}, ACTIONS, frame=(4, 5, 3))
MIXED = ez.EntitySpace({"Rock": ["x"]}, ACTIONS, ["time"], hidden=True, frame=(2, 3, 1))
SPACES = pytest.mark.parametrize("space", [PLAIN, MIXED], ids=["plain", "mixed"])


def observations(space: ez.EntitySpace, count: int = 5) -> list[dict[str, Any]]:
    space.seed(0)
    return [space.sample() for _ in range(count)]


def pictures(batch: EntityBatch) -> list[Any]:
    assert batch.frames is not None
    assert batch.frames.dtype == np.uint8 and (batch.frames.lengths == 1).all()
    return [frame.tolist() for frame in batch.frames.values]


@SPACES
def test_an_observation_holds_a_picture_of_bytes(space: ez.EntitySpace) -> None:
    observation = observations(space)[0]
    assert space.problem(observation) is None
    assert observation["frame"].shape == space.frame
    assert "frame" in space.spaces
    for wrong in (observation["frame"][1:], observation["frame"].astype(np.float32)):
        assert "'frame'" in str(space.problem({**observation, "frame": wrong}))
    del observation["frame"]
    assert "frame" in str(space.problem(observation))


@SPACES
def test_batches_keep_each_step_with_its_picture(space: ez.EntitySpace) -> None:
    steps = observations(space)
    batch, shown = batch_observations(space, steps), [step["frame"].tolist() for step in steps]
    assert pictures(batch) == shown
    assert batch in EntityBatchSpace(space, 5)
    assert pictures(batch.gather([3, 0, 3])) == [shown[3], shown[0], shown[3]]
    assert pictures(batch[1:4]) == shown[1:4]
    assert pictures(concatenate_batches([batch, batch[:1]])) == [*shown, shown[0]]
    single = unbatch_observation(space, batch, 2)
    assert space.problem(single) is None
    assert single["frame"].tolist() == shown[2] and single["frame"].base is None
    assert not batch.equals(batch.gather([1, 0, 2, 3, 4]))


@SPACES
def test_buffers_packed_batches_and_shared_memory_hand_pictures_on(space: ez.EntitySpace) -> None:
    batch = batch_observations(space, observations(space))
    buffer = ez.batch.EntityBatchBuffer(space)
    for step in range(5):
        buffer.append(batch[step : step + 1])
    assert buffer.batch().equals(batch)
    layout = PackedLayout(space)
    assert layout.unpack(layout.pack(batch)).equals(batch)
    assert layout.unpack_checked(layout.pack(batch)).equals(batch)
    steps, memory, nothing = StepLayout(space), np.empty(4096, np.uint8), np.zeros(5, bool)
    assert steps.write((batch, np.zeros(5, np.float32), nothing, nothing, {}), None, memory) <= len(memory)
    step, _ = steps.join([memory.ctypes.data], [5], [0])
    assert step[0].equals(batch)


def test_a_batch_without_pictures_is_of_another_space() -> None:
    plain = ez.EntitySpace({}, ACTIONS)
    batch = batch_observations(plain, observations(plain))
    assert batch.frames is None
    assert "frames" in str(EntityBatchSpace(PLAIN, 5).problem(batch))
    with raises(ValueError, "frames"):
        ez.batch.EntityBatchBuffer(PLAIN).append(batch)


def test_spaces_with_other_frames_differ_and_come_back_from_checkpoints() -> None:
    other = ez.EntitySpace({}, ACTIONS, frame=(4, 4, 3))
    plain = ez.EntitySpace({}, ACTIONS)
    assert other != PLAIN and plain != PLAIN and "frame[4, 5, 3]" in repr(PLAIN)
    for space in (PLAIN, MIXED, plain):
        assert space_from_schema(space_schema(space)) == space
    assert schema_difference(space_schema(PLAIN), space_schema(PLAIN)) is None
    ours, theirs = space_schema(PLAIN), space_schema(plain)
    assert schema_difference(ours, theirs) == "frame: [4, 5, 3] here, None there"
    assert "frame" not in theirs  # as in checkpoints of before there were frames


@pytest.mark.parametrize("frame", [(4, 5), (4, 5, 0), (4, 5, 2.5), "abc"])
def test_a_frame_has_three_positive_sizes(frame: Any) -> None:
    with raises(ValueError, "frame", "three"):
        ez.EntitySpace({}, ACTIONS, frame=frame)


def test_what_reads_only_entities_says_so() -> None:
    with raises(ValueError, "frames"):
        PaddedLayout(MIXED, {"Rock": 3})
    with raises(ValueError, "RogueNet", "frames"):
        ez.RogueNet(MIXED, ACTIONS)
