"""The published numbers agree with each other."""

from __future__ import annotations

import entitize as ez
import numpy as np
import pytest
from entitize.experiments.microrts import (
    ALL_BOTS,
    PAPER_BOTS,
    PUBLISHED,
    SEARCH_BOTS,
    SHOWN,
    SOURCES,
    PublishedAgent,
    Rates,
    published_for,
)


@pytest.mark.parametrize("agent", PUBLISHED, ids=lambda agent: f"{agent.source}, {agent.name}")
class TestAgent:
    def test_wins_ties_and_losses_are_all_games(self, agent: PublishedAgent) -> None:
        for rates in (agent.overall, *agent.rates.values()):
            if rates.ties is not None and rates.losses is not None:
                assert rates.wins + rates.ties + rates.losses == pytest.approx(100, abs=0.11)

    def test_the_overall_rate_is_the_mean_over_the_bots(self, agent: PublishedAgent) -> None:
        """Where bots are missing, what is left for them must be what is said of them: 91 to 100 %."""
        known = [rates.wins for rates in agent.rates.values()]
        missing = agent.num_bots - len(known)
        if missing == 0:
            assert np.mean(known) == pytest.approx(agent.overall.wins, abs=0.051)
        else:
            rest = (agent.overall.wins * agent.num_bots - sum(known)) / missing
            assert 91 <= rest <= 100.2

    def test_it_is_about_bots_that_there_are_and_has_a_source(self, agent: PublishedAgent) -> None:
        assert set(agent.rates) <= set(ALL_BOTS)
        assert agent.source in SOURCES


def test_the_bots_are_those_of_the_engine() -> None:
    assert set(SEARCH_BOTS) < set(PAPER_BOTS) < set(ALL_BOTS) < set(ez.microrts.BOTS)
    assert (len(PAPER_BOTS), len(ALL_BOTS)) == (13, 14)


def test_rows_belong_to_a_map() -> None:
    assert published_for("basesWorkers16x16A") == published_for("basesWorkers16x16")
    assert len(published_for("basesWorkers16x16", SHOWN)) == 4
    assert {agent.source for agent in published_for("basesWorkers8x8")} == {"zwingenberger", "feudalnet"}
    assert published_for("basesWorkers32x32") == []


def test_rates_read_as_wins_ties_and_losses() -> None:
    assert (str(Rates(56, 9, 35)), str(Rates(52.8))) == ("56/9/35", "52.8")
