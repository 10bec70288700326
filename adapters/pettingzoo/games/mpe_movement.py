"""The scenarios of MPE without messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .mpe import MOTION, PLACE, MpeView, nearest


class SimpleView(MpeView):
    """One agent, one landmark; the agent is not told where it is itself."""

    modules = ("mpe2.simple.simple",)


class SimpleSpreadView(MpeView):
    """All see all, or the nearest `num_agent_neighbors` and `num_landmark_neighbors`; velocities of others
    are hidden. Nobody speaks, so that there are no messages, which the game's observation fills with 0."""

    modules = ("mpe2.simple_spread.simple_spread",)
    knows_place = True

    def others_seen(self, me: Any) -> Sequence[Any]:
        return nearest(me, super().others_seen(me), self.game.scenario.num_agent_neighbors)

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        return nearest(me, self.landmarks(), self.game.scenario.num_landmark_neighbors)


class SimpleFormationView(MpeView):
    """Formation and line: agents are told of landmarks, but not of each other."""

    modules = ("mpe2.simple_formation.simple_formation", "mpe2.simple_line.simple_line")
    knows_place = True

    def others_seen(self, me: Any) -> Sequence[Any]:
        return ()


class SimpleTagView(SimpleSpreadView):
    """`Agent` flees from `Adversary` around `Obstacle`; others see how fast a fleeing agent is, not how fast
    an adversary is."""

    modules = ("mpe2.simple_tag.simple_tag",)
    agent_types = {"Adversary": MOTION, "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {"Obstacle": PLACE}  # noqa: RUF012 - never changed

    def agent_type(self, agent: Any) -> str:
        return "Adversary" if agent.adversary else "Agent"

    def shows_velocity(self, agent: Any) -> bool:
        return not agent.adversary


class SimplePushView(MpeView):
    """`Landmark` has a feature goal, which is 0 for those who are not told: `Adversary` doesn't know it.

    Upstream tells it by where the goal is and by its colour; colours say no more than that.
    """

    modules = ("mpe2.simple_push.simple_push",)
    agent_types = {"Adversary": MOTION, "Agent": MOTION}  # noqa: RUF012 - never changed
    landmark_types = {"Landmark": (*PLACE, "goal")}  # noqa: RUF012 - never changed

    def agent_type(self, agent: Any) -> str:
        return "Adversary" if agent.adversary else "Agent"

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return (float(any(not one.adversary and one.goal_a is landmark for one in observers)),)


class SimpleAdversaryView(SimplePushView):
    """As in push, but nobody is told its own velocity. With `num_landmark_neighbors` an agent that knows the
    goal sees it wherever it is."""

    modules = ("mpe2.simple_adversary.simple_adversary",)
    knows_velocity = False

    def others_seen(self, me: Any) -> Sequence[Any]:
        return nearest(me, super().others_seen(me), self.game.scenario.num_agent_neighbors)

    def landmarks_seen(self, me: Any) -> Sequence[Any]:
        seen = nearest(me, self.landmarks(), self.game.scenario.num_landmark_neighbors)
        return seen if me.adversary or me.goal_a in seen else [*seen, me.goal_a]


class CollectTreasureView(MpeView):
    """`Collector` brings `Treasure` to the `Deposit` for its kind; all see all.

    holding, accepts and kind are one-hot. Treasures that have been collected are no entities until they are
    back. A deposit knows what it accepts: the kind that no other accepts.
    """

    modules = ("mpe2.collect_treasure.collect_treasure",)
    knows_place = True

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

    def shows_velocity(self, agent: Any) -> bool:
        return True

    def landmarks(self) -> Sequence[Any]:
        return [treasure for treasure in self.world.landmarks if treasure.alive]

    def agent_facts(self, agent: Any, observers: Sequence[Any]) -> Sequence[float]:
        return self._one_hot(agent.holding if agent.collector else agent.d_i)

    def landmark_facts(self, landmark: Any, observers: Sequence[Any]) -> Sequence[float]:
        return self._one_hot(landmark.type)

    def _one_hot(self, kind: int | None) -> Sequence[float]:
        return [float(kind == other) for other in self.world.treasure_types]
