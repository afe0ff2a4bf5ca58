"""What a record costs as one thing grows, on SQLite with one worker for each agent.

    python -m tests.bench.growth [--axes keys,partitions,...] [--rounds 3] [--records 300000] [--most 1000000]
        [--stores sqlite,redis,postgresql] [--stored 3000000] [--out docs/proof/growth.json]
    python -m tests.bench.growth --draw docs/proof/growth.json docs/pictures/growth.svg

Each axis (axes.py) is a table: CPU microseconds of workers and supervisor for a record, in the middle of a run, medians
of rounds with the least and the most. The slope is that of a line through the logarithms: 1 is proportional. All
outputs of each run are compared with what must come out. `stored` is the size of a store after so many records.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import load
from tests.bench.__main__ import _chosen, say, verdict
from tests.bench.growth import inputs, stored
from tests.bench.growth.axes import AXES, Scene
from tests.bench.growth.drawing import picture
from tests.bench.growth.slopes import axis_table, stored_table
from tests.bench.growth.trials import Cost
from tests.bench.peers import report
from tests.servers import Kafka, Unavailable
from tests.servers.shared import open_server

Found = dict[str, dict[str, list[Cost]]]
"""Costs by axis or store and by x."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth")
    parser.add_argument("--axes", type=partial(_chosen, ("none", *AXES)), default=tuple(AXES))
    parser.add_argument("--stores", type=partial(_chosen, ("none", *stored.STORES)), default=stored.STORES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=300_000, help="of a run, a multiple of 1,000")
    parser.add_argument("--most", type=int, default=1_000_000, help="the largest x of an axis")
    parser.add_argument("--stored", type=int, default=3_000_000, help="records that go through each store")
    parser.add_argument("--out", type=Path, help="a file of all figures, for --draw")
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("FIGURES", "PICTURE"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if options.draw:
        figures, drawn = options.draw
        drawn.write_text(picture(json.loads(figures.read_text())), encoding="utf-8")
        return 0
    with ExitStack() as opened:
        try:
            os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"  # see tests.bench
            server = open_server(Kafka(heap="1g"))
            del os.environ["_JAVA_OPTIONS"]
        except (Unavailable, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 3
        opened.callback(server.destroy)
        print(report.machine(), flush=True)
        results: Found = {}
        problems = list(measured(str(server.url), options, results))
        if options.out:
            options.out.write_text(json.dumps(document(results), indent=1) + "\n", encoding="utf-8")
        return verdict(problems)


def measured(bootstrap: str, options: argparse.Namespace, figures: Found) -> Iterator[str]:
    """Prints the tables and fills `figures`; yields what was wrong."""
    scene = Scene(bootstrap, options.records)
    for name in [name for name in options.axes if name in AXES]:
        axis = AXES[name]
        costs = figures[name] = {str(x): [] for x in axis.points if x <= options.most}
        for turn in range(options.rounds):
            for x in [*costs][:: -1 if turn % 2 else 1]:
                cost = axis.cost(scene, int(x))
                costs[x].append(cost)
                say(f"{name} {x}, round {turn + 1}: {cost.micros:.2f} µs, {cost.peak:.0f} MiB, {dict(cost.more)}")
                yield from (f"{name} {x}: {problem}" for problem in cost.problems)
        scene.forget()
        print(axis_table(axis, costs), flush=True)
    for store in [store for store in options.stores if store in stored.STORES]:
        source = scene.input("stored", lambda b, topic: inputs.folded(b, topic, options.stored, load.PER_KEY * 10))
        tenths = stored.costs(bootstrap, store, source)
        figures[store] = {str(x): [cost] for x, cost in tenths.items()}
        yield from (f"{store}: {problem}" for problem in {p for cost in tenths.values() for p in cost.problems})
        print(stored_table(store, figures[store]), flush=True)


def document(costs: Mapping[str, Mapping[str, Sequence[Cost]]]) -> dict[str, Any]:
    """What --draw reads."""
    return {
        name: {
            x: [{"micros": round(c.micros, 3), "peak": round(c.peak), **c.more} for c in many] for x, many in by.items()
        }
        for name, by in costs.items()
    }


if __name__ == "__main__":
    sys.exit(main())
