"""Play of a policy as a viewer shows it: per step the observation, the choices and why they were made."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..envs import EntityBatch, EntitySpace, EntityVectorEnv, ObservationError
from ..envs.errors import whole_number
from ..envs.vector.episode_counts import count_step
from ..envs.vector.infos import inactive_lanes
from ..policies.policy import ActingPolicy, ActResult, ExplainablePolicy, Explanation
from .attention import without_small_weights
from .scene import Camera, camera_of

if TYPE_CHECKING:
    from ..datasets import EntityDataset
    from ..datasets.steps import Steps

#: Frames are made smaller than this, in pixels, so that a page with a thousand of them can still be sent.
LARGEST_FRAME = 320


@dataclass(frozen=True, eq=False)
class Decision:
    """One lane at one step: what the policy observed, computed and chose, and the reward that followed."""

    observation: EntityBatch  # one step
    actions: dict[str, NDArray[Any]]  # per action (A, …), as in `ActResult.actions`
    reward: float
    value: float | None  # predicted return; None: not known
    explanation: Explanation | None  # None: the policy explains nothing, or no policy was asked
    episode: int
    step: int  # within the episode, counting those at which the lane was active
    active: bool = True  # False: the lane had nothing to decide
    ended: bool = False  # the episode ended with this step
    frame: bytes | None = None  # a picture before the step, as a PNG or JPEG file
    camera: Camera | None = None  # the part of the world that `frame` shows


@dataclass(frozen=True, eq=False)
class Recording:
    """Steps of all lanes, with what is needed to name what they hold."""

    space: EntitySpace
    lanes: tuple[str, ...]
    steps: list[list[Decision]] = field(default_factory=list)  # by step, then by lane
    policy: str = ""  # the class of the policy

    def __repr__(self) -> str:
        return f"Recording({len(self.steps)} steps of {', '.join(self.lanes)})"

    @property
    def returns(self) -> list[list[float]]:
        """Per lane the sums of rewards of its episodes; the last one may be unfinished."""
        sums: list[dict[int, float]] = [{} for _ in self.lanes]
        begun = [set[int]() for _ in self.lanes]
        for step in self.steps:
            for lane, decision in enumerate(step):
                sums[lane][decision.episode] = sums[lane].get(decision.episode, 0.0) + decision.reward
                if decision.active:
                    begun[lane].add(decision.episode)
        return [
            [total for n, total in of_lane.items() if n in own]
            for of_lane, own in zip(sums, begun, strict=True)
        ]


@runtime_checkable
class NamesAgents(Protocol):
    """A vector environment whose lanes are agents with names."""

    agents: list[tuple[int, str]]  # per lane its game and its agent


def record_episodes(
    policy: ActingPolicy,
    venv: EntityVectorEnv,
    *,
    episodes: int = 1,
    max_steps: int = 1000,
    seed: int | None = None,
    deterministic: bool = False,
) -> Recording:
    """Play until each lane of `venv` has finished `episodes`, or for `max_steps`, and keep every step.

    Args:
        policy: with `explain` it also shows why it acts: RogueNet its attention and its distributions,
            baselines the latter.
        venv: is reset with `seed`. With render mode "rgb_array" its frames are kept too.
        episodes: of each lane, at least 1.
        max_steps: after so many steps, at least 1, the recording ends in any case.
        seed: of the environments and of the sampling.
        deterministic: take the most probable actions instead of sampling.

    Raises:
        TypeError: `episodes` or `max_steps` is no whole number.
        ValueError: one of them is below 1, or `seed` is negative.
        ObservationError: a rendered frame is no picture.
    """
    whole_number("record_episodes: episodes", episodes)
    whole_number("record_episodes: max_steps", max_steps)
    batch, info = venv.reset(seed=seed)  # first, as it checks the seed
    rng = np.random.default_rng(seed)
    recording = Recording(venv.single_observation_space, _lane_names(venv), policy=type(policy).__name__)
    finished, lengths = np.zeros(venv.num_envs, np.int64), np.zeros(venv.num_envs, np.int64)
    while len(recording.steps) < max_steps and finished.min() < episodes:
        acted = policy.act(batch, rng, deterministic)
        inactive = inactive_lanes(info, venv.num_envs)
        seen = [batch.gather([lane]) for lane in range(venv.num_envs)]
        explanations = [_explained(policy, one) for one in seen]
        frames = list(_frames(venv))
        after, rewards, terminated, truncated, info = venv.step(acted.actions)
        recording.steps.append(
            [
                Decision(
                    seen[lane],
                    {name: chosen[lane].copy() for name, chosen in acted.actions.items()},
                    float(rewards[lane]),
                    _value(acted, lane),
                    explanations[lane],
                    int(finished[lane]),
                    int(lengths[lane]),
                    not inactive[lane],
                    bool(terminated[lane] or truncated[lane]),
                    *frames[lane],
                )
                for lane in range(venv.num_envs)
            ]
        )
        ended, _ = count_step(lengths, terminated | truncated, ~inactive)
        finished[ended] += 1
        batch = after
    return recording


def recording_of_dataset(dataset: EntityDataset, episode: int = 0, policy: Any = None) -> Recording:
    """Return a recorded episode as a `Recording`, without frames.

    Args:
        episode: its place in `dataset.episodes`.
        policy: says at each observation what it attends to and would choose; the choices stay the recorded
            ones. None: distributions, attention and values are left out.

    Raises:
        IndexError: the dataset has no such episode.
        DatasetError: the dataset was recorded with other spaces than the policy has.
    """
    if policy is not None:
        dataset.check_space(policy.observation_space, "policy")
    chosen = dataset.episodes[episode]
    steps = dataset.gather(chosen.rows[~dataset.column("final")[chosen.rows]])
    name = "" if policy is None else type(policy).__name__
    recording = Recording(dataset.space, (f"lane {chosen.lane}",), policy=name)
    for place in range(len(steps.reward)):
        recording.steps.append([_recorded(steps, place, policy)])
    return recording


def _recorded(steps: Steps, place: int, policy: Any) -> Decision:
    observation = steps.observations.gather([place])
    value = None if policy is None else float(policy.value(observation)[0])
    return Decision(
        observation,
        {name: chosen[place].copy() for name, chosen in steps.actions.items()},
        float(steps.reward[place]),
        value,
        _explained(policy, observation),
        0,
        int(steps.step[place]),
        not steps.inactive[place],
        bool(steps.terminated[place] or steps.truncated[place]),
    )


def _explained(policy: object, observation: EntityBatch) -> Explanation | None:
    if not isinstance(policy, ExplainablePolicy):
        return None
    return without_small_weights(policy.explain(observation))


def _value(acted: ActResult, lane: int) -> float | None:
    """Return the value; None where there are no log-probabilities either: the policy is no network."""
    return float(acted.values[lane]) if acted.log_probs else None


def _lane_names(venv: EntityVectorEnv) -> tuple[str, ...]:
    if isinstance(venv, NamesAgents) and len(venv.agents) == venv.num_envs:
        several = len({game for game, _ in venv.agents}) > 1
        return tuple(f"game {game}, {agent}" if several else str(agent) for game, agent in venv.agents)
    return tuple(f"lane {lane}" for lane in range(venv.num_envs))


# -- frames -------------------------------------------------------------------------------------------------


def _frames(venv: EntityVectorEnv) -> Iterator[tuple[bytes | None, Camera | None]]:
    """Yield the picture of each lane and what it shows, where both are to be had."""
    rendered = venv.render() if venv.render_mode == "rgb_array" else None
    files: dict[int, bytes] = {}
    for lane in range(venv.num_envs):
        if rendered is None:
            yield None, None
            continue
        frame = rendered[lane]
        if id(frame) not in files:
            files[id(frame)] = picture_file(np.asarray(frame))
        shown = camera_of(venv)
        yield files[id(frame)], None if shown is None else Camera(*shown.camera(lane))


def picture_file(frame: NDArray[np.uint8]) -> bytes:
    """Return a frame (H, W, 3) as a PNG file, or one above `LARGEST_FRAME` as a JPEG file of that size.

    Grey frames (H, W) and frames with transparency (H, W, 4) are taken, too.

    Raises:
        ObservationError: it is no such picture.
    """
    from PIL import Image

    if frame.dtype != np.uint8 or not frame.size or not (frame.ndim == 2 or frame.shape[2:] in ((3,), (4,))):
        raise ObservationError(
            f"render(): expected a picture (height, width, 3) of uint8, got {frame.shape} of {frame.dtype}"
        )
    picture, file = Image.fromarray(frame), io.BytesIO()
    if max(picture.size) <= LARGEST_FRAME:
        picture.save(file, format="PNG")
    else:
        picture.thumbnail((LARGEST_FRAME, LARGEST_FRAME))
        picture.convert("RGB").save(file, format="JPEG", quality=80)
    return file.getvalue()
