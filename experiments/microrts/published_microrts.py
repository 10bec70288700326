"""What others have published about agents that play the scripted AIs of μRTS, as numbers.

Sources:
    huang: Huang, Ontañón, Bamford, Grela, "Gym-μRTS: Toward Affordable Full Game Deep Reinforcement Learning
        Research with μRTS" (CoG 2021, arXiv 2105.13807), from the evaluation runs in the repository
        vwxyzjn/gym-microrts-paper: the best seed, 100 games against each AI, always as player 0, sampled
        actions, 4000 ticks.
    zwingenberger: Zwingenberger, "Transformers as Policies for Variable Action Environments" (2023, arXiv
        2301.03679), read off the evaluation plots of NiklasZ/transformers-for-variable-action-envs: 100 games
        against each AI, 2000 ticks, gym-microrts 0.3.2.
    feudalnet: an evaluation of the same networks on gym-microrts 0.6.0 in the repository rhatos/FeudalNet
        (2026): 1000 games against each AI, 2000 ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: The scripted AIs of the papers, and those of them that search for as long as the clock lets them.
PAPER_BOTS = (
    *("randomBiasedAI", "randomAI", "passiveAI", "workerRushAI", "lightRushAI", "coacAI", "naiveMCTSAI"),
    *("mixedBot", "rojo", "izanagi", "tiamat", "droplet", "guidedRojoA3N"),
)
SEARCH_BOTS = ("naiveMCTSAI", "mixedBot", "izanagi", "tiamat", "droplet", "guidedRojoA3N")
ALL_BOTS = (*PAPER_BOTS, "mayari")

#: Maps that are the same under another name (equal files in the engine's package).
_SAME_MAP = {"basesWorkers16x16A": "basesWorkers16x16"}


@dataclass(frozen=True)
class Rates:
    """Percent of games; ties and losses are None where only wins are known."""

    wins: float
    ties: float | None = None
    losses: float | None = None

    def __str__(self) -> str:
        """Wins/ties/losses, or wins alone."""
        return "/".join(f"{value:g}" for value in (self.wins, self.ties, self.losses) if value is not None)


@dataclass(frozen=True)
class PublishedAgent:
    """The results of one agent on one map."""

    name: str
    source: str
    map: str
    max_steps: int
    games: int  # against each bot
    num_bots: int  # that `overall` is about
    overall: Rates
    rates: Mapping[str, Rates]  # by bot; those that are not published one by one are left out


def _won(**wins: float) -> dict[str, Rates]:
    return {bot: Rates(share) for bot, share in wins.items()}


#: The bots of the columns below; against the others every agent here won at least 91 %.
_HUANG_BOTS = (
    *("coacAI", "workerRushAI", "droplet", "naiveMCTSAI", "izanagi", "mixedBot", "lightRushAI"),
    "guidedRojoA3N",
)


def _huang(name: str, overall: Rates, *columns: float | Rates) -> PublishedAgent:
    rates = [column if isinstance(column, Rates) else Rates(column) for column in columns]
    known = dict(zip(_HUANG_BOTS, rates, strict=True))
    return PublishedAgent(name, "huang", "basesWorkers16x16", 4000, 100, 13, overall, known)


_HUANG = (
    _huang("UAS IMPALA, diverse bots", Rates(90.7, 2.5, 6.8), 100, 69, 54, Rates(76, 24, 0), 92, 100, 89, 99),
    _huang(
        "GridNet encoder-decoder, diverse bots",
        Rates(88.8, 7.2, 4.0),
        98,
        100,
        96,
        Rates(13, 87, 0),
        59,
        95,
        98,
        100,
    ),
    _huang("GridNet Nature CNN, diverse bots", Rates(86.8, 6.8, 6.4), 89, 99, 63, 27, 62, 99, 95, 96),
    _huang("GridNet IMPALA, diverse bots", Rates(83.5, 8.3, 8.2), 93, 99, 90, 12, 49, 80, 79, 95),
    _huang("UAS, diverse bots", Rates(82.5, 9.4, 8.2), 86, 58, 36, 12, 90, 100, 100, 93),
    _huang("UAS, coacAI only", Rates(82.2, 8.8, 9.0), 92, 66, 54, 13, 80, 97, 81, 98),
    _huang("GridNet, coacAI only", Rates(72.8, 9.5, 17.8), 96, 15, 9, 2, 62, 91, 88, 92),
    _huang("GridNet, half self-play", Rates(71.9, 6.8, 21.3), 7, 52, 36, 25, 69, 89, 79, 90),
    _huang("GridNet, self-play", Rates(71.0, 6.2, 22.8), 13, 46, 29, 25, 62, 87, 81, 90),
)

_ALWAYS = Rates(100, 0, 0)

_ZWINGENBERGER = (
    PublishedAgent(
        name="Transformer, embedded",
        source="zwingenberger",
        map="basesWorkers16x16",
        max_steps=2000,
        games=100,
        num_bots=13,
        overall=Rates(78.7),
        rates={
            "randomBiasedAI": Rates(99, 1, 0),
            "randomAI": _ALWAYS,
            "passiveAI": _ALWAYS,
            "workerRushAI": Rates(56, 9, 35),
            "lightRushAI": Rates(98, 0, 2),
            "coacAI": Rates(90, 3, 7),
            "naiveMCTSAI": Rates(7, 93, 0),
            "mixedBot": Rates(90, 9, 1),
            "rojo": _ALWAYS,
            "izanagi": Rates(81, 7, 12),
            "tiamat": Rates(98, 0, 2),
            "droplet": Rates(26, 15, 59),
            "guidedRojoA3N": Rates(78, 22, 0),
        },
    ),
    PublishedAgent(
        name="Transformer, base",
        source="zwingenberger",
        map="basesWorkers8x8",
        max_steps=2000,
        games=100,
        num_bots=13,
        overall=Rates(89.8),
        rates={
            "randomBiasedAI": _ALWAYS,
            "randomAI": _ALWAYS,
            "passiveAI": _ALWAYS,
            "workerRushAI": _ALWAYS,
            "lightRushAI": _ALWAYS,
            "coacAI": Rates(99, 1, 0),
            "naiveMCTSAI": Rates(64, 9, 27),
            "mixedBot": Rates(80, 6, 14),
            "rojo": _ALWAYS,
            "izanagi": Rates(63, 2, 35),
            "tiamat": Rates(99, 1, 0),
            "droplet": Rates(73, 1, 26),
            "guidedRojoA3N": Rates(89, 5, 6),
        },
    ),
)

_FEUDALNET = (
    PublishedAgent(
        name="Transformer, embedded, again on 0.6.0",
        source="feudalnet",
        map="basesWorkers16x16",
        max_steps=2000,
        games=1000,
        num_bots=14,
        overall=Rates(78.5),
        rates={
            **_won(randomBiasedAI=98.9, randomAI=99.6, passiveAI=100, workerRushAI=52.8, lightRushAI=96.9),
            **_won(coacAI=87.4, mixedBot=93.9, rojo=99.9, izanagi=71.7, tiamat=99.1, droplet=20.9),
            **_won(naiveMCTSAI=10.7, guidedRojoA3N=78.8, mayari=88.1),
        },
    ),
    PublishedAgent(
        name="Transformer, base, again on 0.6.0",
        source="feudalnet",
        map="basesWorkers8x8",
        max_steps=2000,
        games=1000,
        num_bots=13,
        overall=Rates(87.2),
        rates=_won(mayari=0, izanagi=77, droplet=78, mixedBot=87, naiveMCTSAI=94),
    ),
)


@dataclass(frozen=True)
class PublishedTraining:
    """A row of the table that compares networks in Zwingenberger's paper, with their sizes."""

    name: str
    source: str  # of win rate, return and hours
    map: str
    win_rate: float  # share of games against 13 bots
    shaped_return: float
    hours: float  # of training
    parameters: int  # by counting


#: Table 1 of Zwingenberger; its first two rows are from Huang et al. The transformers' win rates are others
#: than those in PUBLISHED, which were read off plots of another evaluation.
PUBLISHED_TRAINING = (
    PublishedTraining("GridNet encoder-decoder", "huang", "basesWorkers16x16", 0.89, 180.8, 117.03, 838_191),
    PublishedTraining("UAS, IMPALA CNN", "huang", "basesWorkers16x16", 0.91, 137.6, 63.67, 220_175),
    PublishedTraining("TransformerNet", "zwingenberger", "basesWorkers8x8", 0.91, 84.9, 55.30, 645_470),
    PublishedTraining(
        "TransformerNet, embedded", "zwingenberger", "basesWorkers16x16", 0.76, 189.7, 58.87, 661_854
    ),
)

#: The best of each paper first.
PUBLISHED = (*_ZWINGENBERGER, *_FEUDALNET, *_HUANG)

#: Published agents that stand in pictures and printed tables; the other files have all.
SHOWN = (*_ZWINGENBERGER, *_FEUDALNET, *_HUANG[:2])

SOURCES = {
    "huang": "Huang et al. 2021, arXiv 2105.13807; runs in vwxyzjn/gym-microrts-paper",
    "zwingenberger": (
        "Zwingenberger 2023, arXiv 2301.03679;"
        " read off plots in NiklasZ/transformers-for-variable-action-envs"
    ),
    "feudalnet": "rhatos/FeudalNet 2026, an evaluation of Zwingenberger's networks",
}


def published_for(map_name: str, agents: Sequence[PublishedAgent] = PUBLISHED) -> list[PublishedAgent]:
    """Those of `agents` that have results on the map `map_name`."""
    name = _SAME_MAP.get(map_name, map_name)
    return [agent for agent in agents if agent.map == name]


def published_training_for(map_name: str) -> list[PublishedTraining]:
    """The rows of `PUBLISHED_TRAINING` on the map `map_name`."""
    name = _SAME_MAP.get(map_name, map_name)
    return [row for row in PUBLISHED_TRAINING if row.map == name]
