"""The scenarios of MPE in which agents send messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .mpe import MOTION, PLACE, MpeView

COLOURS = ("red", "green", "blue")
GOAL_COLOURS = ("goal_red", "goal_green", "goal_blue")


class SimpleReferenceView(MpeView):
    """Each of two agents knows where the other should go, and tells it.

    `Agent` adds message_0 to message_9, what the other says (its own words are 0 to the one who looks), and
    the colour of the landmark that it wants the other to go to, 0 for the other's. Where the other is, is
    hidden. `Landmark` adds its colour, which upstream's fixed order of landmarks stands for.
    """

    modules = ("mpe2.simple_reference.simple_reference",)
    agent_types = {  # noqa: RUF012 - never changed
        "Agent": (*MOTION, *(f"message_{word}" for word in range(10)), *GOAL_COLOURS)
    }
    landmark_types = {"Landmark": (*PLACE, *COLOURS)}  # noqa: RUF012 - never changed

    def shows_place(self, agent: Any) -> bool:
        return False

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        goal = known(agent.goal_b.color, agent in observers)
        return [*known(agent.state.c, is_heard(agent, observers)), *goal]

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return landmark.color.tolist()


class SimpleSpeakerListenerView(MpeView):
    """The speaker, who stands still and sees nothing, knows the goal; the listener, who goes, is told.

    `Speaker` has own, message_0 to message_2, which the listener hears, and the colour of the goal, which the
    speaker knows; it has no place. `Landmark` adds its colour, as in the reference game.
    """

    modules = ("mpe2.simple_speaker_listener.simple_speaker_listener",)
    agent_types = {  # noqa: RUF012 - never changed
        "Speaker": ("own", *(f"message_{word}" for word in range(3)), *GOAL_COLOURS),
        "Listener": MOTION,
    }
    landmark_types = {"Landmark": (*PLACE, *COLOURS)}  # noqa: RUF012 - never changed

    def agent_type(self, agent: Any) -> str:
        return "Listener" if agent.movable else "Speaker"

    def others_seen(self, me: Any) -> Sequence[Any]:
        return super().others_seen(me) if me.movable else ()

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        return self.landmarks() if me.movable else ()

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        return super().motion(agent, observers, me) if agent.movable else (float(agent in observers),)

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        if agent.movable:
            return ()
        goal = known(agent.goal_b.color, agent in observers)
        return [*known(agent.state.c, is_heard(agent, observers)), *goal]

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return landmark.color.tolist()


class SimpleCryptoView(MpeView):
    """Alice tells Bob a word, encoded with a key that both know; Eve overhears it.

    Nobody has a place. `Alice`: own; message_0 to message_3, which the others hear; goal_0 to goal_3, the
    word to tell, and key_0 to key_3, both of which she knows. `Bob`: own, and the key, which he knows.
    `Eve`: own. Only Alice is an entity to others.
    """

    modules = ("mpe2.simple_crypto.simple_crypto",)
    agent_types = {  # noqa: RUF012 - never changed
        "Alice": ("own", *(f"{what}_{bit}" for what in ("message", "goal", "key") for bit in range(4))),
        "Bob": ("own", *(f"key_{bit}" for bit in range(4))),
        "Eve": ("own",),
    }
    landmark_types = {}  # noqa: RUF012 - never changed

    def agent_type(self, agent: Any) -> str:
        return "Eve" if agent.adversary else "Alice" if agent.speaker else "Bob"

    def others_seen(self, me: Any) -> Sequence[Any]:
        return [other for other in super().others_seen(me) if other.speaker]

    def landmarks(self) -> Sequence[Any]:
        return ()

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        return (float(agent in observers),)

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        if agent.adversary:
            return ()
        alice = next(one for one in self.world.agents if one.speaker)
        key = known(alice.key, agent in observers)
        if not agent.speaker:
            return key
        message = known(agent.state.c, is_heard(agent, observers))
        return [*message, *known(agent.goal_a.color, agent in observers), *key]


class SimpleWorldCommView(MpeView):
    """As tag, with `Food` to eat and `Forest` to hide in, and adversaries with a leader who speaks.

    `Adversary` adds leader; `Forest` adds inside, 1 where the one who looks (or somebody of its team) is in
    it. Who is in a forest sees those in the same one, and nobody else; nobody else sees them, except for the
    leader, who sees all. Globals message_0 to message_3: what the leader says, 0 for those who flee.
    """

    modules = ("mpe2.simple_world_comm.simple_world_comm",)
    agent_types = {"Adversary": (*MOTION, "leader"), "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {  # noqa: RUF012 - never changed
        "Obstacle": PLACE,
        "Food": PLACE,
        "Forest": (*PLACE, "inside"),
    }
    knows_place = True
    fact_names = tuple(f"message_{word}" for word in range(4))

    def agent_type(self, agent: Any) -> str:
        return "Adversary" if agent.adversary else "Agent"

    def landmark_type(self, landmark: Any) -> str:
        return {"landmark": "Obstacle", "food": "Food", "forest": "Forest"}[landmark.name.split()[0]]

    def others_seen(self, me: Any) -> Sequence[Any]:
        others = super().others_seen(me)
        if me.leader:
            return others
        mine = self._forests_of(me)
        theirs = [(other, self._forests_of(other)) for other in others]
        return [other for other, forests in theirs if mine & forests or not mine | forests]

    def _forests_of(self, agent: Any) -> set[int]:
        return {number for number, forest in enumerate(self.world.forests) if is_inside(agent, forest)}

    def shows_velocity(self, agent: Any) -> bool:
        return not agent.adversary

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        return (float(agent.leader),) if agent.adversary else ()

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        if self.landmark_type(landmark) != "Forest":
            return ()
        return (float(any(is_inside(agent, landmark) for agent in observers)),)

    def facts(self, observers: Sequence[Any]) -> Sequence[float]:
        leader = next(agent for agent in self.world.agents if agent.leader)
        return known(leader.state.c, any(agent.adversary or agent.leader for agent in observers))


def known(numbers: np.ndarray, is_known: bool) -> list[float]:
    """Return `numbers` if they are known, otherwise as many zeros."""
    return numbers.tolist() if is_known else [0.0] * len(numbers)


def is_heard(speaker: Any, observers: Sequence[Any]) -> bool:
    """Return True if one of `observers` is another agent than `speaker`, whose messages all others hear."""
    return any(one is not speaker for one in observers)


def is_inside(agent: Any, forest: Any) -> bool:
    """Return True if `agent` touches `forest`, by upstream's measure."""
    (x, y), (forest_x, forest_y) = agent.state.p_pos.tolist(), forest.state.p_pos.tolist()
    distance = math.sqrt((x - forest_x) ** 2 + (y - forest_y) ** 2)
    return bool(distance < agent.size + forest.size)
