"""A trained agent inside a game's own loop, without an environment and without torch.

    python examples/couriers.py && python examples/agent_in_a_loop.py

The game hands its objects to the agent and gets the objects back that were selected.
"""

from __future__ import annotations

import argparse
from math import dist

import entitize as ez
import numpy as np

from couriers import Courier, Parcel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", default="runs/couriers")
    options = parser.parse_args()

    agent = ez.load_agent(options.run, seed=0)
    rng = np.random.default_rng(7)
    couriers = [Courier(*rng.uniform(-1, 1, 2)) for _ in range(3)]  # one more than in training
    parcels = [Parcel(*rng.uniform(-1, 1, 2)) for _ in range(10)]
    steps = 0
    while parcels and steps < 100:
        steps += 1
        choices = ez.actions.SelectEntityMask(actor_ids=couriers, actee_ids=parcels)
        fetch = agent.act(ez.Obs(couriers, parcels, actions={"fetch": choices}))["fetch"]
        for courier, parcel in zip(fetch.actors, fetch.actees, strict=True):
            distance = dist((courier.x, courier.y), (parcel.x, parcel.y))
            share = min(1.0, 0.25 / max(distance, 0.25))
            courier.x += share * (parcel.x - courier.x)
            courier.y += share * (parcel.y - courier.y)
            if distance <= 0.25 and parcel in parcels:
                parcels.remove(parcel)
    print(f"{len(parcels)} parcels left after {steps} steps")


if __name__ == "__main__":
    main()
