"""`make hostile`: ten minutes of hostile records beside 1,000 good ones a second. The exit code is 0 if all held."""

import argparse
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from pprint import pprint

from tests.hostile.records import kinds
from tests.hostile.run import Attack, Plan
from tests.servers import Kafka, Program, Server, Valkey
from tests.servers.process import new_folder

LARGEST = 900_000_000
"""Bytes of the record that ends a process."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=1_000.0, help="good records a second")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


def started(opened: ExitStack, program: Program, root: Path) -> str:
    """The URL of a server that ends with `opened`."""
    server = Server(program, root / type(program).__name__.lower())
    opened.callback(server.destroy)
    return server.start().url


def main() -> int:
    options, root = arguments(), new_folder()
    with ExitStack() as opened:
        bootstrap, store = (started(opened, program, root) for program in (Kafka(), Valkey()))
        folder = root / "app"
        folder.mkdir()
        plan = Plan(options.seconds, options.rate, kinds(LARGEST), options.seed)
        report = Attack(folder, bootstrap, store, "hostile", plan).run()
    pprint(report)
    return 1 if report.verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
