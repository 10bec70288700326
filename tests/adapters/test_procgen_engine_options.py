"""What the engine draws does not touch what it plays: states byte for byte, in every game and mode."""

from __future__ import annotations

import entitize as ez
import numpy as np

DRAWING = ("use_monochrome_assets", "use_backgrounds")


def without_drawing_options(dump, game):
    """The dump with the drawing options blanked: they come after version, name and two or four ints."""
    start = 8 + len(game)
    blank = bytearray(dump)
    for position in (2, 4):
        blank[start + 4 * position : start + 4 * position + 4] = bytes(4)
    return bytes(blank)


def test_the_cheapest_drawing_leaves_every_byte_of_the_states_alone(game_mode):
    game, mode = game_mode
    common = {"num": 2, "env_name": game, "rand_seed": 5, "num_threads": 0}
    options = ez.procgen.EngineOptions(distribution_mode=mode)
    engines = [ez.procgen.import_engine()(**options.arguments(render) | common) for render in (True, False)]
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 15, 2)
    for step in range(200):
        if step % 5 == 0:
            pretty, cheap = (
                [without_drawing_options(dump, game) for dump in engine.get_state()] for engine in engines
            )
            assert pretty == cheap
        actions = np.where(rng.random(2) < 0.3, rng.integers(0, 15, 2), actions)
        for engine in engines:
            engine.act(actions.astype(np.int32))
    for engine in engines:
        engine.close()


def test_the_state_says_how_it_is_drawn(dumps_of, slow_decode):
    """That the blanked bytes above are the two options and nothing else."""
    dump = dumps_of("coinrun", "easy")[0]
    blank = slow_decode(without_drawing_options(dump, "coinrun"))
    state = slow_decode(dump)
    differing = {name for name in state if name != "grid" and state[name] != blank[name]}
    assert differing <= set(DRAWING)


def test_drawing_is_cheap_without_a_render_mode_and_pretty_with_one():
    cheap = ez.procgen.EngineOptions().arguments(render=False)
    assert not cheap["use_backgrounds"] and cheap["use_monochrome_assets"]
    pretty = ez.procgen.EngineOptions().arguments(render=True)
    assert pretty["use_backgrounds"] and not pretty["use_monochrome_assets"]
    chosen = ez.procgen.EngineOptions(use_backgrounds=True, use_monochrome_assets=True)
    assert chosen.arguments(render=False) == cheap | {"use_backgrounds": True}
