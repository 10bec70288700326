"""The views of MPE's scenarios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .mpe import MOTION, PLACE, MpeView

COLOURS = ("red", "green", "blue")
GOAL_COLOURS = ("goal_red", "goal_green", "goal_blue")


def messages(count: int) -> tuple[str, ...]:
    """Return the names of the features that hold a message of `count` numbers."""
    return tuple(f"message_{word}" for word in range(count))


class SimpleView(MpeView):
    """One agent, one landmark; the agent does not observe its own position."""

    modules = ("mpe2.simple.simple",)


class SimpleSpreadView(MpeView):
    """Velocities of others are hidden. Nobody speaks: there are no messages, which the game's observation
    fills with 0."""

    modules = ("mpe2.simple_spread.simple_spread",)
    knows_place = True
    limited = True


class SimpleFormationView(MpeView):
    """Formation and line: agents observe landmarks, but not each other."""

    modules = ("mpe2.simple_formation.simple_formation", "mpe2.simple_line.simple_line")
    knows_place = True

    def others_seen(self, me: Any) -> Sequence[Any]:
        return ()


class SimpleTagView(SimpleSpreadView):
    """`Agent` flees from `Adversary` around `Obstacle`; others observe the velocity of a fleeing agent, not
    that of an adversary."""

    modules = ("mpe2.simple_tag.simple_tag",)
    agent_types = {"Adversary": MOTION, "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {"Obstacle": PLACE}  # noqa: RUF012 - never changed
    velocity_types = ("Agent",)


class SimplePushView(MpeView):
    """`Landmark` has a feature goal, which is 0 for those who do not know it: `Adversary`.

    Upstream shows it by where the goal is and by its colour; colours say no more than that.
    """

    modules = ("mpe2.simple_push.simple_push",)
    agent_types = {"Adversary": MOTION, "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {"Landmark": (*PLACE, "goal")}  # noqa: RUF012 - never changed

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return (float(any(not one.adversary and one.goal_a is landmark for one in observers)),)


class SimpleAdversaryView(SimplePushView):
    """Push, in which no agent observes its own velocity. With `num_landmark_neighbors` an agent that knows
    the goal observes it wherever it is."""

    modules = ("mpe2.simple_adversary.simple_adversary",)
    knows_velocity = False
    limited = True

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        seen = super().landmarks_seen(me)
        return seen if me.adversary or me.goal_a in seen else [*seen, me.goal_a]


class CollectTreasureView(MpeView):
    """`Collector` brings `Treasure` to the `Deposit` for its kind; all observe all.

    holding, accepts and kind are one-hot. Treasures that have been collected are no entities until they are
    back. A deposit knows what it accepts: the kind that no other accepts.
    """

    modules = ("mpe2.collect_treasure.collect_treasure",)
    knows_place = True
    velocity_types = ("Collector", "Deposit")
    agent_types = {"Collector": MOTION, "Deposit": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {"Treasure": PLACE}  # noqa: RUF012 - never changed

    def __init__(self, game: Any) -> None:
        super().__init__(game)
        kinds = {"Collector": "holding", "Deposit": "accepts", "Treasure": "kind"}
        self.entities = {
            name: (*features, *(f"{kinds[name]}_{kind}" for kind in self.world.treasure_types))
            for name, features in self.entities.items()
        }

    def agent_type(self, agent: Any) -> str:
        return "Collector" if agent.collector else "Deposit"

    def landmarks(self) -> Sequence[Any]:
        return [treasure for treasure in self.world.landmarks if treasure.alive]

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        return self._one_hot(agent.holding if agent.collector else agent.d_i)

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return self._one_hot(landmark.type)

    def _one_hot(self, kind: int | None) -> Sequence[float]:
        return [float(kind == other) for other in self.world.treasure_types]


class SimpleReferenceView(MpeView):
    """Each of two agents knows where the other should go, and says it.

    `Agent` adds message_0 to message_9, what the other says (an agent's own words are 0 to itself), and the
    colour of the landmark that it wants the other to go to, 0 for the other's. The other's position is
    hidden. `Landmark` adds its colour, which upstream's fixed order of landmarks stands for.
    """

    modules = ("mpe2.simple_reference.simple_reference",)
    agent_types = {"Agent": (*MOTION, *messages(10), *GOAL_COLOURS)}  # noqa: RUF012 - never changed
    landmark_types = {"Landmark": (*PLACE, *COLOURS)}  # noqa: RUF012 - never changed
    shows_place = False

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        goal = known(agent.goal_b.color, agent in observers)
        return [*known(agent.state.c, is_heard(agent, observers)), *goal]

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return landmark.color.tolist()


class SimpleSpeakerListenerView(SimpleReferenceView):
    """The speaker, who stands still and observes nothing, knows the goal; the listener moves.

    `Speaker` has own, message_0 to message_2, which the listener hears, and the colour of the goal, which the
    speaker knows; it has no position. `Landmark` adds its colour, as in the reference game.
    """

    modules = ("mpe2.simple_speaker_listener.simple_speaker_listener",)
    agent_types = {  # noqa: RUF012 - never changed
        "Speaker": ("own", *messages(3), *GOAL_COLOURS),
        "Listener": MOTION,
    }
    shows_place = True

    def agent_type(self, agent: Any) -> str:
        return "Listener" if agent.movable else "Speaker"

    def others_seen(self, me: Any) -> Sequence[Any]:
        return super().others_seen(me) if me.movable else ()

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        return self.landmarks() if me.movable else ()

    def motion(self, agent: Any, observers: Sequence[Any], me: Any | None) -> Sequence[float]:
        return super().motion(agent, observers, me) if agent.movable else (float(agent in observers),)

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        return () if agent.movable else super().agent_facts(agent, observers)


class SimpleCryptoView(MpeView):
    """Alice sends Bob a word, encoded with a key that both know; Eve overhears it.

    Agents have no positions. `Alice`: own; message_0 to message_3, which the others hear; goal_0 to goal_3,
    the word to send, and key_0 to key_3, both of which she knows. `Bob`: own, and the key, which he knows.
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
    """Tag, with `Food` to eat and `Forest` to hide in, and adversaries with a leader who speaks.

    `Adversary` adds leader; `Forest` adds inside, 1 if the observing agent (or a member of the team) is in
    it. An agent in a forest observes those in the same one only, and only those observe it, except for the
    leader, who observes all. Globals message_0 to message_3: what the leader says, 0 for those who flee.
    """

    modules = ("mpe2.simple_world_comm.simple_world_comm",)
    agent_types = {"Adversary": (*MOTION, "leader"), "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {  # noqa: RUF012 - never changed
        "Obstacle": PLACE,
        "Food": PLACE,
        "Forest": (*PLACE, "inside"),
    }
    knows_place = True
    velocity_types = ("Agent",)
    fact_names = messages(4)

    def landmark_type(self, landmark: Any) -> str:
        return {"landmark": "Obstacle", "food": "Food", "forest": "Forest"}[landmark.name.split()[0]]

    def _read(self) -> None:
        super()._read()
        #: of each agent
        self._forests = {
            agent: {forest for forest in self.world.forests if self._is_inside(agent, forest)}
            for agent in self.world.agents
        }

    def _is_inside(self, agent: Any, forest: Any) -> bool:
        """Return True if `agent` touches `forest`, by upstream's measure."""
        (x, y), (forest_x, forest_y) = self._places[agent], self._places[forest]
        distance = math.sqrt((x - forest_x) ** 2 + (y - forest_y) ** 2)
        return bool(distance < agent.size + forest.size)

    def others_seen(self, me: Any) -> Sequence[Any]:
        others = super().others_seen(me)
        if me.leader:
            return others
        mine = self._forests[me]
        theirs = [(other, self._forests[other]) for other in others]
        return [other for other, forests in theirs if mine & forests or not mine | forests]

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        return (float(agent.leader),) if agent.adversary else ()

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        if self._types[landmark] != "Forest":
            return ()
        return (float(any(landmark in self._forests[agent] for agent in observers)),)

    def facts(self, observers: Sequence[Any]) -> Sequence[float]:
        leader = next(agent for agent in self.world.agents if agent.leader)
        return known(leader.state.c, any(agent.adversary or agent.leader for agent in observers))


def known(numbers: np.ndarray, is_known: bool) -> list[float]:
    """Return `numbers` if they are known, otherwise as many zeros."""
    return numbers.tolist() if is_known else [0.0] * len(numbers)


def is_heard(speaker: Any, observers: Sequence[Any]) -> bool:
    """Return True if one of `observers` is another agent than `speaker`, whose messages all others hear."""
    return any(one is not speaker for one in observers)
