from __future__ import annotations

import pytest
from entitize.viewer import grows_downwards, position_columns


@pytest.mark.parametrize(
    ("features", "columns"),
    [
        (("x", "y"), (0, 1)),
        (("hp", "y_pos", "x_pos"), (2, 1)),
        (("posX", "posY"), (0, 1)),
        (("ball x", "ball y", "speed"), (0, 1)),
        (("relative_x", "relative_y", "x", "y"), (2, 3)),
        (("relative_x", "relative_y"), (0, 1)),
        (("relative_x", "relative_y", "x_pos", "y_pos"), (2, 3)),
        (("row", "column"), (1, 0)),
        (("x_velocity", "y_velocity"), None),
        (("target_x", "target_y"), None),
        (("x", "z"), None),
        (("vx", "vy"), None),
        ((), None),
    ],
)
def test_positions_are_found_by_their_names(features, columns) -> None:
    assert position_columns(features) == columns


def test_named_positions_count_where_a_type_has_both() -> None:
    assert position_columns(("x", "y", "a", "b"), ("a", "b")) == (2, 3)
    assert position_columns(("x", "y", "a"), ("a", "b")) is None


def test_rows_grow_downwards() -> None:
    assert grows_downwards(("row", "column"), (1, 0))
    assert not grows_downwards(("x", "y"), (0, 1))
