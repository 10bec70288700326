"""The scripted players that come with the engine."""

from __future__ import annotations

from typing import Any

from ....suggestions import nearest_or_known

#: Name, as in the engine's own Python package -> Java class.
BOTS = {
    "randomBiasedAI": "ai.RandomBiasedAI",
    "randomAI": "ai.RandomBiasedSingleUnitAI",
    "passiveAI": "ai.PassiveAI",
    "workerRushAI": "ai.abstraction.WorkerRush",
    "lightRushAI": "ai.abstraction.LightRush",
    "POLightRush": "ai.abstraction.partialobservability.POLightRush",
    "POWorkerRush": "ai.abstraction.partialobservability.POWorkerRush",
    "POHeavyRush": "ai.abstraction.partialobservability.POHeavyRush",
    "PORangedRush": "ai.abstraction.partialobservability.PORangedRush",
    "coacAI": "ai.coac.CoacAI",
    "naiveMCTSAI": "ai.mcts.naivemcts.NaiveMCTS",
    "mixedBot": "ai.JZ.MixedBot",
    "rojo": "ai.competition.rojobot.Rojo",
    "izanagi": "ai.competition.IzanagiBot.Izanagi",
    "tiamat": "ai.competition.tiamat.Tiamat",
    "droplet": "GNS.Droplet",
    "mayari": "mayariBot.mayari",
    "guidedRojoA3N": "ai.competition.GRojoA3N.GuidedRojoA3N",
}

#: Those whose every loop ends, as their byte code says, and that of what they call: they go over units and
#: cells, or search in a way that enters a cell once. No clock says how long they think; they wait for
#: nothing.
_ALWAYS_ANSWER = frozenset(
    {
        "randomBiasedAI",
        "randomAI",
        "passiveAI",
        "workerRushAI",
        "lightRushAI",
        "POLightRush",
        "POWorkerRush",
        "POHeavyRush",
        "PORangedRush",
        "coacAI",
    }
)


def may_hang(name: str, partial_observability: bool) -> bool:
    """Return true unless the bot is known to end every search.

    mayari's loops end as long as it sees an enemy: else it looks for ever for the best of the directions that
    are left, where its barracks can't pay for a unit.
    """
    return name not in _ALWAYS_ANSWER and (name != "mayari" or partial_observability)


#: How long a game against a bot takes, in games against the quickest ones; 1 for those that are not named.
_COSTS = {
    "coacAI": 2,
    "mayari": 3,
    "rojo": 3,
    "naiveMCTSAI": 600,
    "mixedBot": 600,
    "izanagi": 600,
    "tiamat": 600,
    "droplet": 600,
    "guidedRojoA3N": 5000,
}


#: The bot whose search can be counted. The others search in parts of them that no setting reaches, and take
#: 10 ms a tick or more.
COUNTED_BOT = "naiveMCTSAI"


def expected_cost(name: str | None, search_iterations: int | None = None) -> int:
    """About how long a game against this bot takes; None: one between two lanes."""
    if name == COUNTED_BOT and search_iterations is not None:
        return 1 + round(0.7 * search_iterations)
    return 2 if name is None else _COSTS.get(name, 1)


#: The bot that plays where none is named. Most of the others look for what partial observability may hide
#: from them, and raise a NullPointerException when they don't find it: coacAI does so at the first tick.
USUAL_BOT, USUAL_BOT_PARTIAL = "coacAI", "POLightRush"


def check_bot(name: str) -> str:
    """`name`, where there is such a bot.

    Raises:
        ValueError: there is none; the nearest name is given.
    """
    if name not in BOTS:
        raise ValueError(f"MicroRTS has no bot {name!r}{nearest_or_known(name, BOTS)}")
    return name


def make_bot(jpype: Any, name: str, unit_types: Any, search_iterations: int | None = None) -> Any:
    """A new Java player of that name; `search_iterations` is how often the `COUNTED_BOT` plays ahead."""
    bot = jpype.JClass(BOTS[name])(unit_types)
    if name == COUNTED_BOT and search_iterations is not None:
        bot.setTimeBudget(-1)  # no limit
        bot.setIterationsBudget(search_iterations)
    return bot


def find_generators(jpype: Any, bot: Any) -> list[Any]:
    """The fields in which a bot keeps random generators of its own: the engine makes them without a seed.

    Looks through the bot's class and its ancestors; bots that search as long as the clock lets them stay what
    they are.
    """
    random, modifier = jpype.JClass("java.util.Random"), jpype.JClass("java.lang.reflect.Modifier")
    generators = []
    kind = bot.getClass()
    while kind is not None:
        for field in kind.getDeclaredFields():
            if field.getType() == random.class_ and not modifier.isStatic(field.getModifiers()):
                field.setAccessible(True)
                generators.append(field)
        kind = kind.getSuperclass()
    return generators
