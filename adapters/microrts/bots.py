"""The scripted players that come with the engine."""

from __future__ import annotations

from typing import Any

from .names import unknown

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

#: Who plays where nobody is named. Most of the others look for what partial observability may hide from them,
#: and raise a NullPointerException when they don't find it: coacAI does so at the first tick.
USUAL_BOT, USUAL_BOT_PARTIAL = "coacAI", "POLightRush"


def check_bot(name: str) -> str:
    """`name`, where there is such a bot.

    Raises:
        ValueError: there is none; the nearest name is given.
    """
    if name not in BOTS:
        raise ValueError(unknown("bot", name, BOTS))
    return name


def make_bot(jpype: Any, name: str, unit_types: Any) -> Any:
    """A new Java player of that name."""
    return jpype.JClass(BOTS[name])(unit_types)


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
