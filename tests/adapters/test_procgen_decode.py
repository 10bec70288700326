"""The fast decoder of Procgen's dumps against the slow one, in every game and mode."""

from __future__ import annotations

import math

import entitize as ez
import numpy as np
import pytest
from entitize.adapters.procgen.decoder import features
from entitize.adapters.procgen.decoder.layout import ENTITY
from entitize.adapters.procgen.reference import reference_features

from facts import raises


def expected_numbers(state, slots):
    """The decoder's table of numbers, out of the slow decoder's state."""
    values = []
    for slot in slots:
        name, _, item = slot.partition(".")
        value = state[name]
        if item == "length":
            value = len(value)
        elif item:
            value = value[int(item)] if int(item) < len(value) else 0
        values.append(value)
    return values


def test_every_number_of_every_game_and_mode_agrees_with_the_slow_decoder(game_mode, dumps_of, slow_decode):
    dumps = dumps_of(*game_mode)
    decoded = ez.procgen.StateDecoder(*game_mode).decode_dumps(dumps)
    expected = [expected_numbers(slow_decode(dump), decoded.slots) for dump in dumps]
    np.testing.assert_array_equal(decoded.numbers, np.array(expected, float))


def test_reference_features_are_all_fields_and_the_games_numbers(game_mode, dumps_of, slow_decode):
    dumps = dumps_of(*game_mode)
    decoder = ez.procgen.StateDecoder(*game_mode, ez.procgen.ViewOptions(features="reference"))
    batch = decoder.decode_dumps(dumps).batch
    names = [f.name for f in reference_features(game_mode[0])]
    assert names[: len(ENTITY)] == [f.name for f in ENTITY]
    slots = [f.slot for f in reference_features(game_mode[0])[len(ENTITY) :]]
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        numbers = expected_numbers(state, slots)
        rows = [[*entity.values(), *numbers] for entity in state["entities"]]
        got = np.concatenate([batch.entities[name][index] for name in batch.entities if name != "Tiles"])
        expected = np.array(rows, np.float32)
        assert len(got) == len(expected)
        # Sorted by type, and within a type in the order of the dump.
        order = {name: [] for name in batch.entities}
        for row, entity in zip(expected, state["entities"], strict=True):
            order[reference_type(decoder, entity["type"])].append(row)
        in_order = [np.reshape(order[name], (-1, expected.shape[1])) for name in order if name != "Tiles"]
        np.testing.assert_array_equal(got, np.concatenate(in_order))
    assert batch.entities["Other"].num_items == 0


def reference_type(decoder, number):
    from entitize.adapters.procgen.reference import reference_types

    return next((t.name for t in reference_types(decoder.game.name) if number in t.ids), "Other")


def expected_feature(feature, state, entity):
    """One feature worked out by its definition from the slow decoder's state."""
    player, time = state["entities"][0], state["cur_time"]

    def unit(value):
        return min(max(value, 0.0), 1.0)

    name, _, item = feature.slot.partition(".")
    number = state[name] if name else None
    if item:
        number = number[int(item)] if int(item) < len(number) else 0
    value = entity[feature.field] if feature.field else None
    gaps = [
        abs(entity[axis] - player[axis]) - entity[f"r{axis}"] - player[f"r{axis}"] if entity else 0.0
        for axis in "xy"
    ]
    return {
        features.FLOAT: lambda: value * feature.scale,
        features.INT: lambda: value * feature.scale,
        features.RELATIVE: lambda: (value - player[feature.field]) * feature.scale,
        features.SCREEN: lambda: (value - number) * feature.scale,
        features.EQUALS: lambda: float(value == feature.parameter),
        features.SINE: lambda: math.sin(value),
        features.COSINE: lambda: math.cos(value),
        features.SINCE: lambda: unit((time - value) * feature.scale),
        features.LOOKUP: lambda: number[value] if 0 <= value < len(number) else 0,
        features.SLOT: lambda: number * feature.scale,
        features.SLOT_EQUALS: lambda: float(number == feature.parameter),
        features.SLOT_SINCE: lambda: unit((time - number) * feature.scale),
        features.SLOT_RECENT: lambda: float(time - number < feature.parameter),
        features.SLOT_REMAINING: lambda: unit(1 - (time - number) * feature.scale),
        features.GAP: lambda: gaps["xy".index(feature.field)] * feature.scale,
        features.NEARNESS: lambda: 1 / (1 + feature.scale * math.hypot(*(max(gap, 0) for gap in gaps))),
        features.MOVE_X: lambda: (-1, -1, -1, 0, 0, 0, 1, 1, 1)[number],
        features.MOVE_Y: lambda: (-1, 0, 1, -1, 0, 1, -1, 0, 1)[number],
    }[feature.kind]()


def shown_features(kind):
    """What there is of an entity type with all distances."""
    return kind.features if kind.name == "Player" else features.with_distances(kind.features)


def test_default_features_follow_their_definitions(game_mode, dumps_of, slow_decode, is_in_sight):
    game, mode = game_mode
    table = ez.procgen.GAMES[game]
    dumps = dumps_of(game, mode)
    batch = (
        ez.procgen.StateDecoder(game, mode, ez.procgen.ViewOptions(distances=True)).decode_dumps(dumps).batch
    )
    for index, dump in enumerate(dumps):
        state = slow_decode(dump)
        for kind in table.types:
            expected = [
                [expected_feature(f, state, entity) for f in shown_features(kind)]
                for number, entity in enumerate(state["entities"])
                if entity["type"] in kind.ids and (number == 0 or is_in_sight(entity, state, table.sight))
            ]
            got = batch.entities[kind.name][index]
            np.testing.assert_allclose(got, np.reshape(expected, got.shape), rtol=1e-5, atol=1e-5)
        expected = [expected_feature(f, state, None) for f in table.globals]
        np.testing.assert_allclose(batch.globals[index], expected, rtol=1e-5, atol=1e-6)
    assert batch.entities["Other"].num_items == 0


def test_every_entity_is_either_shown_or_decoration(game_mode, dumps_of, slow_decode):
    game, mode = game_mode
    table = ez.procgen.GAMES[game]
    shown = {number for kind in table.types for number in kind.ids}
    seen = {entity["type"] for dump in dumps_of(game, mode) for entity in slow_decode(dump)["entities"]}
    assert seen <= shown | set(table.decoration)
    assert not shown & set(table.decoration)


def test_the_player_is_the_only_actor_and_may_do_anything(game, dumps_of):
    batch = ez.procgen.StateDecoder(game).decode_dumps(dumps_of(game, "easy")).batch
    assert next(iter(batch.entities)) == "Player"
    assert (batch.entities["Player"].lengths == 1).all()
    part = batch.actions["act"]
    assert (part.actors.lengths == 1).all() and not part.actors.values.any()
    assert part.mask.values.shape == (len(batch), 15) and part.mask.values.all()


@pytest.mark.parametrize(
    "options",
    [
        ez.procgen.ViewOptions(),
        ez.procgen.ViewOptions("reference"),
        ez.procgen.ViewOptions(visible_only=True),
    ],
)
def test_batches_are_of_the_shapes_that_the_space_says(game, options, dumps_of):
    decoder = ez.procgen.StateDecoder(game, "easy", options)
    batch = decoder.decode_dumps(dumps_of(game, "easy")).batch
    space = decoder.observation_space
    assert list(batch.entities) == list(space.entities)
    for name, rows in batch.entities.items():
        assert rows.dtype == np.float32 and rows.inner_shape == (len(space.entities[name]),)
        assert np.isfinite(rows.values).all() and len(rows) == len(batch)
    assert batch.globals.dtype == np.float32
    assert (
        batch.globals.shape == (len(batch), len(space.global_features)) and np.isfinite(batch.globals).all()
    )


def test_features_are_of_about_unit_size(game_mode, dumps_of):
    batch = ez.procgen.StateDecoder(*game_mode).decode_dumps(dumps_of(*game_mode)).batch
    for rows in batch.entities.values():
        assert rows.num_items == 0 or np.abs(rows.values).max() < 8  # 64 cells count 6.4
    assert len(batch.globals) == 0 or np.abs(batch.globals).max(initial=0) < 4


def test_an_unknown_entity_id_goes_to_other(dumps_of, slow_decode):
    dump = bytearray(next(d for d in dumps_of("bigfish", "easy") if len(slow_decode(d)["entities"]) > 1))
    state = slow_decode(bytes(dump))
    second = dump.index(np.float32([state["entities"][1]["x"], state["entities"][1]["y"]]).tobytes())
    for number in (77, -5, 1007, 2**31 - 1, 0):
        dump[second + 24 : second + 28] = np.int32(number).tobytes()
        batch = ez.procgen.StateDecoder("bigfish").decode_dumps([bytes(dump)]).batch
        assert batch.entities["Other"].num_items == 1
        assert batch.entities["Player"].num_items == 1
        assert batch.entities["Fish"].num_items == len(state["entities"]) - 2


def test_no_dumps_give_an_empty_batch():
    decoder = ez.procgen.StateDecoder("coinrun")
    nothing = np.zeros(0, np.int64)
    batch = decoder.decode(np.zeros(0, np.uint8), nothing, nothing).batch
    assert len(batch) == 0 and batch.num_entities == 0


@pytest.mark.parametrize(("start", "length"), [(0, 11), (-1, 5), (11, 0), (5, -1), (2**62, 2**62)])
def test_a_dump_that_lies_outside_of_the_buffer_is_refused(start, length):
    with raises(ez.procgen.ProcgenStateError, "coinrun", "state 0", "buffer"):
        ez.procgen.StateDecoder("coinrun").decode(
            np.zeros(10, np.uint8), np.array([start]), np.array([length])
        )


def test_buffers_of_another_kind_are_refused():
    decoder = ez.procgen.StateDecoder("coinrun")
    with raises(ValueError, "buffer", "int8", "(10,)"):
        decoder.decode(np.zeros(10, np.int8), np.array([0]), np.array([10]))
    with raises(ValueError, "starts", "lengths", "(1,)", "(2,)"):
        decoder.decode(np.zeros(10, np.uint8), np.array([0]), np.array([10, 10]))


def test_the_same_state_gives_the_same_features_whatever_the_batch(dumps_of):
    dumps = dumps_of("bossfight", "easy")
    decoder = ez.procgen.StateDecoder("bossfight")
    together = decoder.decode_dumps(dumps).batch
    for index in (0, 7, len(dumps) - 1):
        alone = decoder.decode_dumps([dumps[index]]).batch
        for name, rows in alone.entities.items():
            np.testing.assert_array_equal(rows.values, together.entities[name][index])


def test_errors_say_game_state_and_byte(dumps_of):
    good, *_ = dumps_of("coinrun", "easy")
    foreign, *_ = dumps_of("maze", "easy")
    decoder = ez.procgen.StateDecoder("coinrun")
    with raises(ez.procgen.ProcgenStateError, "coinrun", "state 1", "byte 4", "another game") as caught:
        decoder.decode_dumps([good, foreign])
    assert (caught.value.game, caught.value.state, caught.value.offset) == ("coinrun", 1, 4)


@pytest.mark.parametrize(
    ("damage", "facts"),
    [
        (lambda d: d[:-1], ["ends"]),
        (lambda d: d[:-4], ["ends"]),
        (lambda d: b"", ["ends"]),
        (lambda d: d + b"\0", ["bytes after the end"]),
        (lambda d: d[:-4] + b"\0\0\0\0", ["0xCAFECAFE"]),
        (lambda d: b"\1" + d[1:], ["serialize version 0"]),
        (lambda d: d[:4] + b"\xff\xff\xff\xff" + d[8:], ["negative"]),
        (lambda d: d[:4] + b"\xff\xff\xff\x7f" + d[8:], ["longer"]),
        (lambda d: d[:8] + b"C" + d[9:], ["another game"]),
    ],
)
def test_damage_is_found_and_named(damage, facts, dumps_of):
    with raises(ez.procgen.ProcgenStateError, *facts):
        ez.procgen.StateDecoder("coinrun").decode_dumps([damage(dumps_of("coinrun", "easy")[0])])


def damaged(dump, state, field, value):
    """`dump` with another number in a field of its player's record."""
    names = [f.name for f in ENTITY]
    player = state["entities"][0]
    start = dump.index(np.float32([player["x"], player["y"], player["vx"], player["vy"]]).tobytes())
    at = start + 4 * names.index(field)
    return dump[:at] + value.tobytes() + dump[at + 4 :], at


@pytest.mark.parametrize(
    ("field", "value", "facts"),
    [
        ("x", np.float32(np.nan), ["finite"]),
        ("rx", np.float32(-np.inf), ["finite"]),
        ("alpha", np.float32(2e9), ["1e9"]),
        ("smart_step", np.int32(2), [0, 1]),
        ("is_reflected", np.int32(-1), [0, 1]),
        ("type", np.int32(2), ["player"]),
    ],
)
def test_damaged_entities_are_found(field, value, facts, dumps_of, slow_decode):
    dump = dumps_of("coinrun", "easy")[0]
    bad, at = damaged(dump, slow_decode(dump), field, value)
    with raises(ez.procgen.ProcgenStateError, *facts) as caught:
        ez.procgen.StateDecoder("coinrun").decode_dumps([bad])
    if field != "type":
        assert caught.value.offset == at


def test_every_truncation_is_found(dumps_of):
    dump = dumps_of("plunder", "easy")[-1]
    decoder = ez.procgen.StateDecoder("plunder")
    lengths = np.arange(len(dump))
    errors = decoder.check(np.frombuffer(dump, np.uint8), np.zeros_like(lengths), lengths)
    assert (errors[:, 0] > 0).all()
    assert ((errors[:, 1] >= 0) & (errors[:, 1] <= lengths)).all()
