"""The messages between a game in any language and a trainer: docs/protocol.md describes them.

Everything that comes from a connection is untrusted: each function either returns checked values or raises an
error whose message goes back to the game.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...envs.actions import Action
from ...envs.batch.resolve import Observation
from ...envs.spaces import EntitySpace
from ...envs.spaces.space_schema import check_schema, schema_difference, space_from_schema, space_schema
from ...suggestions import unknown

if TYPE_CHECKING:
    from .training_agent import TrainingAgent

#: The version of the messages. It changes where an older client would be misunderstood.
VERSION = 1
#: The environment variable with the token, which must not be written into a run folder.
TOKEN = "ENTITIZE_TOKEN"
#: Fields of an observation in `observe`, and of `game_over` as its last observation.
_OBSERVATION = ("entities", "globals", "actions", "visible")
_RESULT = ("score", "reward")
_SPACES = ("entities", "actions", "global_features", "hidden", "frame")
_FIELDS = {
    "hello": ("protocol", "spaces", "token", "game", "player"),
    "observe": (*_OBSERVATION, *_RESULT),
    "game_over": (*_OBSERVATION, *_RESULT, "truncated", "outcome"),
}
#: Field of an action's mask in a message -> that of the mask's class.
_MASK_FIELDS = {
    "actors": "actor_ids",
    "actor_types": "actor_types",
    "actees": "actee_ids",
    "actee_types": "actee_types",
    "mask": "mask",
}


#: Bound of every number in an observation: larger ones could make a loss infinite.
LARGEST = 1e9
#: Bounds of declared spaces, whose masks and lists of used components grow with the products of these.
MOST_CHOICES, MOST_COMPONENTS, MOST_LETTERS = 4096, 64, 256


@dataclass(frozen=True)
class Limits:
    """Bounds of what a connection may send."""

    message_bytes: int = 1 << 20
    messages_per_second: float = 10_000.0
    entities: int = 1_000
    """Of one observation; attention costs the square of it."""
    errors: int = 100
    """Messages with errors, after which the connection is closed."""
    silence: float = 60.0
    """Seconds without a message, after which the connection is closed."""
    sending: float = 10.0
    """Seconds that the game may take to read a message, after which the connection is closed."""


class ProtocolError(ValueError):
    """A message that the protocol does not allow."""


@dataclass
class SentObservation(Observation):
    """An observation out of a message, with the score or the reward."""

    score: float | None = None
    reward: float | None = None


def read_message(text: str | bytes) -> dict[str, Any]:
    """Return a message of a game: an object with a known `type`.

    Raises:
        ProtocolError: it is something else.
    """
    if isinstance(text, bytes):
        raise ProtocolError("message: expected text, got bytes")
    try:
        message = json.loads(text, parse_constant=lambda name: _refuse_constant(name, text))
    except ProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"message: expected JSON, got {text[:40]!r}: {error}") from None
    if not isinstance(message, dict):
        raise ProtocolError(f"message: expected an object, got {short(message)}")
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ProtocolError(f"type: expected one of {', '.join(_FIELDS)}, got {short(kind)}")
    return message


def check_fields(message: Mapping[str, Any]) -> None:
    """Check that a message has no unknown fields.

    Raises:
        ProtocolError: it has.
    """
    kind = message["type"]
    extra = sorted(set(message) - {"type", *_FIELDS[kind]})
    if extra:
        raise ProtocolError(f"{kind}: {unknown('field', extra[0], _FIELDS[kind])}")


def check_hello(message: Mapping[str, Any]) -> None:
    """Check that a connection begins with a `hello` of this version.

    Raises:
        ProtocolError: it does not.
    """
    if message["type"] != "hello":
        raise ProtocolError(f"type: expected hello as the first message, got {message['type']}")
    check_fields(message)
    version = message.get("protocol")
    if version != VERSION or isinstance(version, bool):
        raise ProtocolError(f"hello: protocol: expected version {VERSION}, got {short(version)}")


def read_spaces(schema: Any) -> EntitySpace:
    """Return the spaces that a `hello` declares.

    Raises:
        ProtocolError: they are not valid, or too large.
    """
    if not isinstance(schema, dict):
        raise ProtocolError(f"hello: spaces: expected an object, got {short(schema)}")
    for name in schema:
        if name not in _SPACES:
            raise ProtocolError(f"hello: spaces: {unknown('field', name, _SPACES)}")
    schema = {"global_features": [], "hidden": False, **schema}
    try:
        check_schema(schema)
        _check_sizes(schema)
        space = space_from_schema(schema)
    except (KeyError, TypeError, ValueError) as error:
        problem = str(error.args[0]) if error.args else str(error)
        raise ProtocolError(f"hello: spaces: {problem.removeprefix('spaces: ')}") from None
    except Exception as error:  # the schema is untrusted: it can raise anything
        raise ProtocolError(f"hello: spaces: {type(error).__name__}: {error}") from None
    if not len(space.actions):
        raise ProtocolError("hello: spaces: expected at least one action, got none")
    return space


def _check_sizes(schema: Mapping[str, Any]) -> None:
    """Check the sizes of declared spaces, before anything is made of them.

    Raises:
        TypeError: there is something else in place of a list.
        ValueError: there is a frame, or too many or too long names.
    """
    if schema.get("frame") is not None:
        raise ValueError("frame: expected none, got one")
    if _longest(schema) > MOST_LETTERS:
        raise ValueError(f"expected names of at most {MOST_LETTERS} letters, got {_longest(schema)}")
    for name, action in schema["actions"].items():
        where = f"action {name!r}: {action['kind']}"
        for part in ("low", "high"):
            if not isinstance(action.get(part, []), list):
                raise TypeError(f"{where}: {part}: expected a list of numbers, got {short(action[part])}")
        components = action.get("components", [])
        if not isinstance(components, list) or not all(map(_is_pair, components)):
            raise TypeError(
                f"{where}: components: expected a list of [name, choices], got {short(components)}"
            )
        named = [action.get("choices", []), *(choices for _, choices in components)]
        for choices in named:
            if not isinstance(choices, list):
                raise TypeError(f"{where}: choices: expected a list of names, got {short(choices)}")
        count = max(sum(map(len, named)), *(len(action.get(part, [])) for part in ("low", "high")))
        if count > MOST_CHOICES or len(components) > MOST_COMPONENTS:
            raise ValueError(
                f"action {name!r}: expected at most {MOST_CHOICES} choices (or bounds) and {MOST_COMPONENTS}"
                f" components, got {count} and {len(components)}"
            )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _longest(value: Any) -> int:
    """Return the length of the longest text in `value`."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return max(map(_longest, value), default=0)
    return len(value) if isinstance(value, str) else 0


def check_same_spaces(
    space: EntitySpace, schema: Any, owner: str = "the agent", other: str = "the game"
) -> None:
    """Check that a `hello` of `other` declares `space`, that of `owner`.

    Raises:
        ProtocolError: it declares others.
    """
    words = f"{{ours}} in {owner}, {{theirs}} in {other}"
    difference = schema_difference(space_schema(space), space_schema(read_spaces(schema)), words)
    if difference is not None:
        raise ProtocolError(f"hello: spaces: expected those of {owner}: {difference}")


def read_observation(space: EntitySpace, message: Mapping[str, Any], limits: Limits) -> SentObservation:
    """Return the observation of an `observe` or a `game_over`. Actors and actees are entity indices.

    Raises:
        ProtocolError: a field has another form, or a number or a count is too large. Names, shapes and masks
            are checked where the observation is used.
    """
    entities = {name: _numbers(name, rows) for name, rows in _mapping(message, "entities").items()}
    ids: dict[str, range] = {}
    start = 0
    for name in space.entities:
        ids[name] = range(start, start := start + len(entities.get(name, ())))
    if start > limits.entities:
        raise ProtocolError(f"entities: expected at most {limits.entities}, got {start}")
    masks = {name: _mask(space, name, given) for name, given in _mapping(message, "actions").items()}
    return SentObservation(
        entities=entities,
        globals=_numbers("globals", message.get("globals", [])),
        actions=masks,
        ids=ids,
        visible={name: _numbers(name, flags) for name, flags in _mapping(message, "visible").items()},
        **read_result(message),
    )


def read_result(message: Mapping[str, Any]) -> dict[str, float | None]:
    """Return `score` and `reward` of a message.

    Raises:
        ProtocolError: one of them is not a number, or too large.
    """
    result: dict[str, float | None] = {}
    for name in _RESULT:
        value: Any = message.get(name)
        result[name] = value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # null is no number: JavaScript sends it for NaN
        if name in message and not (is_number and abs(value) <= LARGEST):
            raise ProtocolError(f"{name}: expected a number up to {LARGEST:g}, got {short(value)}")
    return result


def read_end(space: EntitySpace, message: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return what a `game_over` says, as arguments of `TrainingAgent.game_over`.

    Raises:
        ProtocolError: one of them is of another type, or too large.
    """
    seen = None
    if any(name in message for name in _OBSERVATION):
        seen = read_observation(space, message, limits)
    truncated = message.get("truncated", False)
    if not isinstance(truncated, bool):
        raise ProtocolError(f"game_over: truncated: expected a boolean, got {short(truncated)}")
    outcome = message.get("outcome")
    if "outcome" in message and not isinstance(outcome, str):
        raise ProtocolError(f"game_over: outcome: expected a text, got {short(outcome)}")
    return {"seen": seen, **read_result(message), "truncated": truncated, "outcome": outcome}


def carry_out(agent: TrainingAgent, message: Mapping[str, Any], limits: Limits) -> dict[str, Action] | None:
    """Give a message of type observe or game_over to the agent of its game.

    Returns:
        the actions at an observation; None at the end of an episode.

    Raises:
        ProtocolError: the message is not of the agent's spaces.
    """
    space = agent.observation_space
    if message["type"] == "observe":
        return agent.act(read_observation(space, message, limits))
    agent.game_over(**read_end(space, message, limits))
    return None


def _numbers(name: str, given: Any) -> NDArray[np.float64]:
    """Return a list of numbers or of rows as an array."""
    if not isinstance(given, list):
        raise ProtocolError(f"{name!r}: expected a list, got {short(given)}")
    try:
        array = np.array(given if _has_numbers(given) else [None]) if given else np.zeros(0)
    except (ValueError, OverflowError):  # rows of different lengths
        array = np.array([None])
    if array.dtype.kind not in "biuf":
        raise ProtocolError(f"{name!r}: expected numbers in rows of equal length, got {short(given)}")
    if array.size and not np.abs(array.astype(np.float64)).max() <= LARGEST:
        raise ProtocolError(f"{name!r}: expected numbers up to {LARGEST:g}, got {short(given)}")
    return array.astype(np.float64)


def _has_numbers(given: list[Any]) -> bool:
    """Return True if `given` has nothing but numbers, or rows of numbers.

    An array of texts would need as much memory for each of them as for the longest.
    """
    rows = given if all(isinstance(row, list) for row in given) else [given]
    return set(map(type, chain.from_iterable(rows))) <= {bool, int, float}


def _mask(space: EntitySpace, name: str, given: Any) -> Any:
    if name not in space.actions.spaces:
        known = ", ".join(map(repr, space.actions.spaces))
        raise ProtocolError(f"actions: expected some of {known}, got {short(name)}")
    if not isinstance(given, dict):
        raise ProtocolError(f"actions: {name!r}: expected an object, got {short(given)}")
    mask_type = space.actions[name].mask_type
    allowed = {field.name for field in fields(mask_type)}
    keys = {key: field for key, field in _MASK_FIELDS.items() if field in allowed}
    for key in given:
        if key not in keys:
            expected = ", ".join(keys) or "no fields"
            raise ProtocolError(f"actions: {name!r}: expected {expected}, got {short(key)}")
        if not isinstance(given[key], list):
            raise ProtocolError(f"actions: {name!r}: {key}: expected a list, got {short(given[key])}")
        if key == "mask" and not _has_numbers(given[key]):
            raise ProtocolError(
                f"actions: {name!r}: mask: expected booleans, or rows of them, got {short(given[key])}"
            )
    return mask_type(**{keys[key]: value for key, value in given.items()})


def hello_message(space: EntitySpace, lane: int) -> str:
    """Return the answer to a `hello`: the spaces, and which lane the game has."""
    return _text("hello", protocol=VERSION, spaces=space_schema(space), lane=lane)


def act_message(actions: Mapping[str, Action]) -> str:
    """Return the answer to an `observe`: for each action its actors (entity indices) and their choices."""
    return _text(
        "act",
        actions={
            name: {field.name: _plain(getattr(action, field.name)) for field in fields(action)}
            for name, action in actions.items()
        },
    )


def error_message(error: object, is_fatal: bool) -> str:
    """Return the answer to a message that can't be used."""
    return _text("error", message=str(error)[:2000], fatal=is_fatal)


def _text(kind: str, **values: Any) -> str:
    return json.dumps({"type": kind, **values})


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def _mapping(message: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = message.get(name, {})
    if not isinstance(value, dict):
        raise ProtocolError(f"{name}: expected an object, got {short(value)}")
    return value


#: A text of JSON, or a constant that Python's reader would take.
_TEXT_OR_CONSTANT = re.compile(r'"(?:\\.|[^"\\])*"|-?Infinity|NaN')


def _refuse_constant(name: str, text: str) -> None:
    """Raise the error of a constant, with what stands around the first one in `text`."""
    found = (match for match in _TEXT_OR_CONSTANT.finditer(text) if not match[0].startswith('"'))
    start = next((match.start() for match in found), 0)
    around = text[max(0, start - 40) : start + len(name) + 10]
    raise ProtocolError(
        f"message: expected finite numbers, got {name} at character {start + 1}, in {around!r}"
    )


def short(value: Any) -> str:
    """Return a value of a message as it was written there, up to a length."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
