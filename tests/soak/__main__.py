"""`make soak`: the long run. `--out` names the report, without its ending. The exit code is 0 when the report is clean.

With `--twin` it is 0 when the report is not clean.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.servers.process import new_folder
from tests.soak.field import PROGRAMS, Setting
from tests.soak.plan import kinds, plan
from tests.soak.report import as_markdown, write
from tests.soak.run import soak

LOGS = Path(".server-logs/soak.log")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--store", choices=[*PROGRAMS, "sqlite"], default="redis")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=3)
    parser.add_argument("--rate", type=float, default=850.0, help="records a second")
    parser.add_argument("--pace", type=float, default=1.1, help="seconds from one fault to the next")
    parser.add_argument("--twin", default="", help="protections to take out, joined by commas")
    parser.add_argument("--calm", action="store_true", help="load without faults: no copy is allowed")
    parser.add_argument("--out", type=Path, default=Path("docs/proof/soak"))
    return parser.parse_args()


def main() -> int:
    options = arguments()
    pause = 10 / options.rate
    setting = Setting(
        options.store, options.seconds, options.seed, options.brokers, pause, options.pace, options.twin, options.calm
    )
    steps = (
        () if options.calm else plan(setting.seed, setting.seconds, setting.pace, kinds(setting.store, setting.brokers))
    )
    print(setting, *steps, sep="\n", flush=True)
    report = soak(setting, new_folder(), LOGS)
    write(report, options.out)
    print(as_markdown(report))
    if options.calm and report.copies:
        return 1
    return 0 if report.clean is not bool(options.twin) else 1


if __name__ == "__main__":
    sys.exit(main())
