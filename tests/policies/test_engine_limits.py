"""Options and kinds of actions that no engine lists are torch's alone, and decide whether networks agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from entitize.envs import ActionSpace, Categorical, Continuous, EntityActionSpace, EntitySpace, SelectEntity
from entitize.policies import RogueNetConfig
from entitize.policies.engines.engine_limits import fused_limit

SPACE = EntitySpace(
    {"Unit": ["x", "y"]},
    EntityActionSpace({"move": Categorical(3), "aim": SelectEntity(), "steer": Continuous([-1.0], [1.0])}),
)


@dataclass(frozen=True)
class NewerConfig(RogueNetConfig):
    """As if somebody had added an option."""

    activation: str = "gelu"


def test_an_option_that_is_not_listed_has_no_kernels() -> None:
    assert fused_limit(NewerConfig(), SPACE) is None
    limit = fused_limit(NewerConfig(activation="relu"), SPACE)
    assert limit is not None and "activation" in limit


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"extent": [5]}, None),
        ({"extent": [1 << 22]}, str(2**23 + 1)),
        ({"extent": [5], "distance": True}, "distance"),
        ({"extent": [5], "key_projection": True}, "key_projection"),
        ({"extent": [5], "value_projection": True}, "value_projection"),
        ({"extent": [5, 2], "position": ["x", "y"], "radial": True, "distance": True}, "radial"),
    ],
)
def test_a_grid_of_offsets_has_kernels(options: dict[str, Any], fact: str | None) -> None:
    limit = fused_limit(RogueNetConfig(relative_position={"position": ["x"], **options}), SPACE)
    assert limit is None if fact is None else limit is not None and fact in limit


def test_a_kind_of_action_that_is_not_listed_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slider(ActionSpace):
        """As if somebody had added a kind."""

    Slider.__abstractmethods__ = frozenset()
    kind: Any = Slider
    monkeypatch.setattr(SPACE.actions, "items", lambda: [("slide", kind())])
    limit = fused_limit(RogueNetConfig(), SPACE)
    assert limit is not None and "slide" in limit and "Slider" in limit


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"activation": "relu"}, {"activation"}),
        ({"squash": True}, {"squash"}),
        ({"dropout": 0.1, "engine": "torch", "log_std_init": 1.0}, set()),
        ({"separate_value_net": True, "value_n_head": 4}, {"separate_value_net", "value_n_head"}),
        ({"n_head": 4}, {"n_head", "value_n_head"}),
    ],
)
def test_options_that_decide_on_results(options: dict[str, Any], changed: set[str]) -> None:
    ours, theirs = NewerConfig().computing(), NewerConfig(**options).computing()
    assert {name for name in ours if ours[name] != theirs[name]} == changed


def test_heads_do_not_decide_on_the_embeddings() -> None:
    heads = RogueNetConfig(d_qk=8, squash=True, separate_value_net=True, value_n_head=4)
    assert heads.computing(heads=False) == RogueNetConfig().computing(heads=False)
    assert heads.computing() != RogueNetConfig().computing()
