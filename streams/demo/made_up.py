"""Made-up flights, for an installation without the package of the real ones: the same at each call."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

MANY = 50_000
CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")
AIRPORTS = ("ATL", "BOS", "CLT", "DEN", "DFW", "IAH", "LAS", "LAX", "MCO", "MIA", "ORD", "PHX", "SEA", "SFO")
ORIGINS = ("EWR", "JFK", "LGA")
FIRST = datetime(2013, 1, 1, 5)
WITHOUT_DELAY = 0.025  # of all flights
SEED = 2013


def rows() -> Iterator[dict[str, str]]:
    """Rows as the file of the real flights has them. `random()` of one seed is the same in each Python."""
    draw = Random(SEED).random
    for number in range(MANY):
        carrier = int(draw() ** 2 * len(CARRIERS))  # a few carriers have most of the flights
        delay = int(draw() ** 4 * 180) - 10 + carrier
        hour = FIRST + timedelta(hours=number * 24 * 365 // MANY)
        yield {
            "carrier": CARRIERS[carrier],
            "flight": str(1 + int(draw() * 2000)),
            "origin": ORIGINS[int(draw() * len(ORIGINS))],
            "dest": AIRPORTS[int(draw() * len(AIRPORTS))],
            "time_hour": hour.isoformat() + "Z",
            "dep_delay": "NA" if draw() < WITHOUT_DELAY else str(delay),
            "distance": str(200 + int(draw() * 2400)),
        }
