"""Actions for a whole batch: draw legal ones, and check them before any environment moves.

What is legal is a rule of each kind of action (see `ActionSpace`); the rules for all kinds are here.
Shape alphabet: B steps, A actors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...ragged import RaggedArray
from ...ragged.compiled import compiled
from ...suggestions import expected_one_of, listed
from ..actions.action_mask import ActionMask
from ..actions.action_space import LEGAL, ActionSpace
from ..actions.array_checks import check_unmasked
from ..actions.entity_action_space import EntityActionSpace
from ..errors import ActionError, ObservationError
from ..spaces.entity_space import EntitySpace
from .entity_batch import EntityBatch


def sample_actions(
    space: EntityActionSpace, batch: EntityBatch, rng: np.random.Generator
) -> dict[str, RaggedArray]:
    """Draw legal actions for every step of `batch`, uniform over what the masks allow.

    Of a conditional multi-discrete action the kind is uniform, and then each component that it uses.

    Raises:
        ObservationError: a mask allows an actor nothing.
    """
    actions = {}
    for name, action in space.items():
        part = batch.actions[name]
        found = action.actor_without_choice(part)
        if found:
            row, problem = found
            raise ObservationError(
                f"env {part.actors.sequence_of(row)}: action {name!r}: the mask of an actor: {problem}"
            )
        actions[name] = part.actors.with_values(action.draw(part, rng))
    return actions


def no_actions(space: EntityActionSpace, num_steps: int) -> dict[str, RaggedArray]:
    """Empty actions for `num_steps` steps: every action is left out (see `EntityActionSpace`)."""
    return {
        name: RaggedArray.empty(num_steps, action.item_shape, action.dtype) for name, action in space.items()
    }


def are_ragged(actions: Any, space: EntityActionSpace, num_steps: int) -> bool:
    """Return True if all are of the space's names, dtypes and shapes, with a sequence for each step."""
    return isinstance(actions, Mapping) and all(
        name in space.spaces
        and isinstance(given, RaggedArray)
        and given.dtype == space[name].dtype
        and given.inner_shape == space[name].item_shape
        and len(given) == num_steps
        for name, given in actions.items()
    )


def illegal_actions(
    space: EntitySpace, batch: EntityBatch, legal: dict[str, RaggedArray]
) -> Iterator[tuple[str, dict[str, RaggedArray]]]:
    """Yield actions that `batch` does not allow, each with what is wrong."""
    unknown = "+".join(space.actions.spaces) + "+"
    yield (
        f"an action with the unknown name {unknown!r}",
        {**legal, unknown: RaggedArray.empty(len(batch), (), np.int64)},
    )
    for name, action in space.actions.items():
        given, part = legal[name], batch.actions[name]
        extra = given.values[:1] if len(given[0]) else np.zeros((1, *given.inner_shape), given.dtype)
        offsets = given.offsets + (np.arange(len(given.offsets)) > 0)
        longer = RaggedArray(np.concatenate([extra, given.values]), offsets)
        yield f"action {name!r} with more choices than actors", {**legal, name: longer}
        if not given.num_items:
            continue
        if not space.actions.optional:
            yield f"a step without action {name!r}", {n: a for n, a in legal.items() if n != name}
        beyond = given.values.copy()
        beyond[0] = action.nonexistent(batch.num_entities)
        yield f"action {name!r} with a choice that does not exist", {**legal, name: given.with_values(beyond)}
        for what, row, item in action.masked_items(part):
            values = given.values.copy()
            values[row] = item
            yield f"action {name!r} with a masked {what}", {**legal, name: given.with_values(values)}


def validate_actions(
    space: EntitySpace,
    batch: EntityBatch,
    actions: Mapping[str, RaggedArray | NDArray[Any]],
    names: Sequence[str] | None = None,
) -> dict[str, RaggedArray]:
    """Check `actions` against the last observations `batch` (B steps), before any environment moves.

    Args:
        actions: by name, ragged, or an array (A, …) with a row for each actor of the batch, in their order.
        names: what errors call the steps (B,); None: "env 0" and so on.

    Returns:
        every action of the space, in its order, as int64 (float32 where continuous). At each step a
        sequence has one item per actor; where the space is `optional` it may be empty instead. A name that
        was left out is empty at all steps.

    Raises:
        ActionError: naming the env, the action, the actor and what was allowed.
    """
    if type(actions) is not dict and not isinstance(actions, Mapping):
        raise ActionError(
            f"actions: expected a dict from action name to RaggedArray, got {type(actions).__name__}"
        )
    for name in actions:
        if name not in space.actions.spaces:
            raise ActionError(f"unknown action {name!r}: {expected_one_of(name, space.actions)}")
    checked = {}
    words = partial(_batch_words, space, batch, names)
    for name, action in space.actions.items():
        part, given = batch.actions[name], actions.get(name)
        if given is None:
            given = RaggedArray.empty(len(batch), action.item_shape, action.dtype)
        elif not isinstance(given, RaggedArray):
            given = _of_actors(name, action, part, given)
        checked[name] = check_action(name, action, part, given, words, space.actions.optional)
    return checked


def ragged_actions(
    space: EntityActionSpace, batch: EntityBatch, actions: Mapping[str, RaggedArray | NDArray[Any]]
) -> Mapping[str, RaggedArray]:
    """Return `actions` as ragged arrays: of an array (A, …), row i is that of the i-th actor of `batch`.

    Other errors are left to `validate_actions`.

    Raises:
        ActionError: something is neither ragged nor such an array.
    """
    if not isinstance(actions, Mapping):
        return actions
    ragged: dict[str, Any] = dict(actions)
    for name, action in space.items():
        if name in ragged and not isinstance(ragged[name], RaggedArray):
            ragged[name] = _of_actors(name, action, batch.actions[name], ragged[name])
    return ragged


def _of_actors(name: str, action: ActionSpace, part: ActionMask, given: Any) -> RaggedArray:
    expected = (part.actors.num_items, *action.item_shape)
    if not expected[0] and isinstance(given, np.ndarray) and not given.size:  # such as of an empty list
        return RaggedArray.empty(len(part.actors), action.item_shape, action.dtype)
    if not isinstance(given, np.ndarray) or given.shape != expected:
        got = f"an array {given.shape}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"
        raise ActionError(
            f"action {name!r}: expected a RaggedArray, or an array {expected} with a row for each actor of"
            f" the batch, got {got}"
        )
    try:
        check_unmasked(given)
        return part.actors.with_values(given)
    except (TypeError, ValueError) as error:
        raise ActionError(f"action {name!r}: {error}") from error


class StepWords(NamedTuple):
    """Names of the parts of a step in errors."""

    #: The environment at this place of the batch: "env 3".
    step: Callable[[int], str]
    #: One of its entities, of a step and an index: "Robot 1 at x=2, y=0".
    entity: Callable[[int, int], str]
    #: The same entity as the one that acts: "actor 4 (Robot 1 at x=2, y=0)".
    actor: Callable[[int, int], str]


def check_action(
    name: str,
    action: ActionSpace,
    part: ActionMask,
    given: RaggedArray,
    words: Callable[[], StepWords],
    optional: bool,
) -> RaggedArray:
    """Check one action of many steps; the result has the dtype of the space.

    Args:
        words: makes the names in an error.
        optional: an action may be left out although it has actors; see `EntityActionSpace`.

    Raises:
        ActionError: not one item per actor, items of another form, or one that its actor's mask forbids.
    """
    if given.values.shape[1:] != action.item_shape or given.values.dtype != action.dtype:
        problem = action.form_problem(given)
        if problem:
            raise ActionError(f"action {name!r}: {problem}")
        given = given.with_values(given.values.astype(action.dtype))
    if len(given) != len(part.actors):
        raise ActionError(f"action {name!r}: expected {len(part.actors)} steps, got {len(given)} steps")
    one_each = _one_per_actor(given.offsets, part.actors.offsets)
    if not one_each or action.first_illegal(given.values, part) != LEGAL:
        _check_closely(name, action, part, given, words(), optional)
    return given


@compiled
def _one_per_actor(offsets: NDArray[np.int64], actor_offsets: NDArray[np.int64]) -> bool:
    """Compare where each step begins (B + 1,) in a list of actions and in the list of actors."""
    for step in range(len(offsets)):  # noqa: SIM110 - Numba compiles no generator
        if offsets[step] != actor_offsets[step]:
            return False
    return True


def _check_closely(
    name: str, action: ActionSpace, part: ActionMask, given: RaggedArray, words: StepWords, optional: bool
) -> None:
    """Raise the error of `given`, unless only steps are left out that may be."""
    _check_counts(name, action, part, given, words, optional)
    steps = np.flatnonzero(given.lengths)
    given, part = given.gather(steps), part.map(lambda array: array.gather(steps))
    item = action.first_illegal(given.values, part)
    if item == LEGAL:
        return
    step = int(steps[part.actors.sequence_of(item)])
    problem = action.explain(given.values[item], part, item, lambda index: words.entity(step, index))
    if not action.is_global:
        problem = f"{words.actor(step, int(part.actors.values[item]))}: {problem}"
    _fail(words, step, name, problem)


def _check_counts(
    name: str, action: ActionSpace, part: ActionMask, given: RaggedArray, words: StepWords, optional: bool
) -> None:
    """Each step has one item per actor or, where the action is `optional`, none."""
    counts, expected = given.lengths, part.actors.lengths
    wrong = counts != expected
    if optional:
        wrong &= counts > 0
    if not wrong.any():
        return
    step = int(wrong.argmax())
    got = f"got {counts[step]}"
    if not expected[step]:
        absent = "the action is not available" if action.is_global else "the action has no actors"
        _fail(words, step, name, f"{absent} at this step: expected no choice, {got}")
    wanted = "1 choice"
    if not action.is_global:
        actors = listed(part.actors[step].tolist(), lambda index: words.entity(step, index))
        plural = "" if expected[step] == 1 else "s"
        wanted = f"{expected[step]} choice{plural}, one for each actor ({actors})"
    if counts[step]:
        _fail(words, step, name, f"expected {wanted}, {got}")
    way_out = "Choose for every actor (sample_actions draws legal choices)"
    _fail(
        words,
        step,
        name,
        f"left out, and the environment has no no-op: expected {wanted}, got none. {way_out}",
    )


def _fail(words: StepWords, step: int, name: str, problem: str) -> NoReturn:
    raise ActionError(f"{words.step(step)}: action {name!r}: {problem}")


def _batch_words(space: EntitySpace, batch: EntityBatch, names: Sequence[str] | None) -> StepWords:
    """Name entities by type and number, with coordinates where they have some."""

    def entity(step: int, index: int) -> str:
        name = space.entity_name(batch.entity_counts(step), index)
        kind, number = name.rsplit(" ", 1)
        features = space.entities[kind]
        if "x" not in features or "y" not in features:
            return name
        row = batch.entities[kind][step][int(number)]
        return f"{name} at x={row[features.index('x')]:g}, y={row[features.index('y')]:g}"

    return StepWords(
        lambda step: f"env {step}" if names is None else names[step],
        entity,
        lambda step, index: f"actor {index} ({entity(step, index)})",
    )


# -- plain actions of single environments -------------------------------------------------------------------


def parsed_actions(
    space: EntityActionSpace, env_name: str, actions: Mapping[str, Any]
) -> dict[str, NDArray[Any]]:
    """The plain actions of one environment, (A, *item_shape) each, empty where one is left out.

    Raises:
        ActionError: no dict, an unknown name, or no array of an action's numbers. Masks are not checked.
    """
    if not isinstance(actions, Mapping):
        raise ActionError(
            f"{env_name}: action: expected a dict from action name to array, got {type(actions).__name__}"
        )
    for name in actions:
        if name not in space.spaces:
            known = expected_one_of(name, space.spaces)
            raise ActionError(f"{env_name}: action {name!r}: unknown action: {known}")
    parsed = {}
    for name, action in space.items():
        try:
            parsed[name] = action.parse(actions.get(name))
        except ValueError as error:
            raise ActionError(f"{env_name}: action {name!r}: {error}") from None
    return parsed


def ragged_orders(
    space: EntityActionSpace, names: Sequence[str], lanes: Sequence[Mapping[str, Any]]
) -> dict[str, RaggedArray]:
    """Plain actions, one dict per lane, as the actions of a vector environment.

    Args:
        names: what errors call the lanes.

    Raises:
        ActionError: as `parsed_actions`; the vector environment checks the masks.
    """
    parsed = [parsed_actions(space, name, actions) for name, actions in zip(names, lanes, strict=True)]
    return {
        name: RaggedArray.from_arrays(
            [lane[name] for lane in parsed], dtype=action.dtype, inner_shape=action.item_shape
        )
        for name, action in space.items()
    }
