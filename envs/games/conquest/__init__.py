"""Games in which players send fleets from planet to planet: Orbit Wars and Planet Wars."""
