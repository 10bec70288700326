from __future__ import annotations

import numpy as np
import pytest
from entitize import Categorical, EntityActionSpace, EntityBatch, EntitySpace, RaggedArray
from entitize.cli import COLOURS, FRAME_HEIGHT, LEGEND_WIDTH, Camera, EntityDrawing
from PIL import ImageColor

from facts import raises

SPACE = EntitySpace(
    {"Robot": ("x", "y", "charge"), "Weather": ("rain",), "Mine": ("x", "y")},
    EntityActionSpace({"go": Categorical(["left", "right"])}),
)


def batch(robots: list[list[float]], mines: list[list[float]]) -> EntityBatch:
    """Two environments: an empty one, and one with the given entities."""
    rows = {
        "Robot": np.reshape(robots, (-1, 3)),
        "Weather": np.ones((1, 1)),
        "Mine": np.reshape(mines, (-1, 2)),
    }
    ragged = {
        name: RaggedArray.from_arrays([np.zeros((0, part.shape[1])), part], dtype=np.float32)
        for name, part in rows.items()
    }
    return EntityBatch(ragged, np.zeros((2, 0), np.float32), {})


def centre_of(picture: np.ndarray, colour: str) -> tuple[float, float]:
    """Mean column and row of the pixels of a colour in the frame, the legend left out."""
    rows, columns = np.nonzero((picture[:, :-LEGEND_WIDTH] == ImageColor.getrgb(colour)).all(2))
    assert len(rows), f"nothing is drawn in {colour}"
    return float(columns.mean()), float(rows.mean())


def test_an_entity_is_marked_where_the_camera_sees_it() -> None:
    frame = np.full((64, 64, 3), 90, np.uint8)
    camera = Camera(left=10, bottom=20, width=8, height=8)
    picture = EntityDrawing(SPACE).draw(batch([[12, 27, 0]], [[16, 21]]), 1, "", frame, camera)
    assert picture.shape == (FRAME_HEIGHT, FRAME_HEIGHT + LEGEND_WIDTH, 3)
    assert centre_of(picture, COLOURS[0]) == pytest.approx(
        (128, 64), abs=2
    )  # x a quarter in, y an eighth from above
    assert centre_of(picture, COLOURS[1]) == pytest.approx((384, 448), abs=2)
    assert (picture[5, 5] == 90).all()  # the frame is under it


def test_features_x_pos_and_y_pos_are_a_position_as_well() -> None:
    space = EntitySpace({"Ship": ("step", "x_pos", "y_pos")}, SPACE.actions)
    ships = RaggedArray.from_arrays([np.array([[9.0, 4.0, 4.0]])], dtype=np.float32)
    ship = EntityBatch({"Ship": ships}, np.zeros((1, 0), np.float32), {})
    picture = EntityDrawing(space).draw(ship, 0, "", np.zeros((64, 64, 3), np.uint8), Camera(0, 0, 8, 8))
    assert centre_of(picture, COLOURS[0]) == pytest.approx((256, 256), abs=2)


def test_what_the_camera_does_not_see_is_not_drawn() -> None:
    frame = np.zeros((64, 64, 3), np.uint8)
    picture = EntityDrawing(SPACE).draw(batch([[500, 500, 0]], []), 1, "", frame, Camera(0, 0, 8, 8))
    with raises(AssertionError, "nothing is drawn"):
        centre_of(picture, COLOURS[0])


def test_rows_count_from_the_top() -> None:
    space = EntitySpace({"Ship": ("column", "row"), "Rock": ("column", "row")}, SPACE.actions)
    places = {"Ship": [1.0, 2.0], "Rock": [4.0, 6.0]}
    ragged = {name: RaggedArray.from_arrays([[place]], dtype=np.float32) for name, place in places.items()}
    picture = EntityDrawing(space).draw(EntityBatch(ragged, np.zeros((1, 0), np.float32), {}), 0, "")
    ship, rock = centre_of(picture, COLOURS[0]), centre_of(picture, COLOURS[1])
    assert ship[0] < rock[0] and ship[1] < rock[1]
    assert rock[1] - ship[1] == pytest.approx((6 - 2) / (1.2 * 4) * FRAME_HEIGHT, abs=2)


def test_without_a_frame_the_ground_is_as_large_as_what_was_seen() -> None:
    drawing = EntityDrawing(SPACE)
    first = drawing.draw(batch([[0, 0, 0]], [[10, 10]]), 1, "")
    robot, mine = centre_of(first, COLOURS[0]), centre_of(first, COLOURS[1])
    assert robot[0] < mine[0] and robot[1] > mine[1]  # y grows upwards
    later = drawing.draw(batch([[0, 0, 0]], []), 1, "")
    assert centre_of(later, COLOURS[0]) == pytest.approx(robot)  # the view stands still


def test_an_empty_step_is_drawn() -> None:
    picture = EntityDrawing(SPACE).draw(batch([], []), 0, "step 0")
    assert picture.shape == (FRAME_HEIGHT, FRAME_HEIGHT + LEGEND_WIDTH, 3)


def test_caption_and_counts_change_the_legend() -> None:
    drawing = EntityDrawing(SPACE)
    pictures = [
        drawing.draw(batch([[0, 0, 0]], []), 1, "step 1"),
        drawing.draw(batch([[0, 0, 0]], []), 1, "step 2"),
        drawing.draw(batch([[0, 0, 0], [0, 0, 0]], []), 1, "step 1"),
    ]
    legends = [picture[:, -LEGEND_WIDTH:].tobytes() for picture in pictures]
    assert len(set(legends)) == 3


def test_a_wide_frame_keeps_its_shape() -> None:
    picture = EntityDrawing(SPACE).draw(
        batch([], []), 0, "", np.zeros((32, 64, 3), np.uint8), Camera(0, 0, 1, 1)
    )
    assert picture.shape == (FRAME_HEIGHT, 2 * FRAME_HEIGHT + LEGEND_WIDTH, 3)
