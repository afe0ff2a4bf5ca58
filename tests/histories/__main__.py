"""Long histories: `python -m tests.histories --minutes 10 --store redis --workload lists --faults kill-child,pause`.

A history with an anomaly is kept as a file, which `--judge FILE` judges again. The exit code is 1 for an anomaly. With
`--twin` a protection is taken out, and the exit code is 0 when an anomaly is found.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.histories.checker.history import History
from tests.histories.field import HistoryField
from tests.histories.run import judge, known_kinds, run
from tests.histories.workloads import WORKLOADS
from tests.servers.process import new_folder
from tests.soak.field import PROGRAMS, Setting

KEPT = Path(".reports/histories")
SHOWN = 12  # anomalies


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="all of them together")
    parser.add_argument("--seconds", type=float, default=120.0, help="of one history")
    parser.add_argument("--store", default="redis", help=f"of {', '.join([*PROGRAMS, 'sqlite'])}, joined by commas")
    parser.add_argument("--workload", default=",".join(WORKLOADS), help="names joined by commas")
    parser.add_argument("--faults", default="", help="kinds joined by commas; all of them unless named")
    parser.add_argument("--brokers", type=int, choices=[1, 3], default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--pace", type=float, default=2.0, help="seconds from one fault to the next")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between four records")
    parser.add_argument("--failpoint", default="", help="of the first worker, as before-commit=stop@60")
    parser.add_argument("--twin", default="", help="protections to take out, joined by commas")
    parser.add_argument("--judge", type=Path, help="only judge this file")
    parser.add_argument("--out", type=Path, default=KEPT)
    return parser.parse_args()


def report(made: History) -> int:
    """Print what the checker finds; how many anomalies there are."""
    anomalies = judge(made)
    about = made.about | {"transactions": len(made.transactions), "anomalies": len(anomalies)}
    print(json.dumps(about), flush=True)
    for anomaly in anomalies[:SHOWN]:
        print(f"  {anomaly}", flush=True)
    return len(anomalies)


def main() -> int:
    options = arguments()
    if options.judge:
        return 1 if report(History.read(options.judge)) else 0
    turns = [(store, name) for name in options.workload.split(",") for store in options.store.split(",")]
    turns = [(store, name) for store, name in turns if store in WORKLOADS[name].stores]
    faults = list(filter(None, options.faults.split(",")))
    end, seed, total = time.monotonic() + 60 * options.minutes, options.seed, 0
    while time.monotonic() < end:
        store, workload = turns[seed % len(turns)]
        limits = (options.seconds, seed, options.brokers, options.pause, options.pace)
        setting = Setting(store, *limits, options.twin, failpoint=options.failpoint)
        unknown = set(faults) - set(known_kinds(setting, ["any"], store == "sqlite"))
        if unknown:
            sys.exit(f"no such fault here: {', '.join(sorted(unknown))}")
        total += _one(setting, workload, faults, options.out)
        seed += 1
    return 0 if bool(total) is bool(options.twin) else 1


def _one(setting: Setting, workload: str, faults: list[str], out: Path) -> int:
    name = f"{workload}-{setting.store}-{setting.brokers}-{setting.seed}"
    made = run(setting, workload, new_folder(), faults, kept_logs(out / f"{name}.log"))
    made.write(out / f"{name}.jsonl")
    count = report(made)
    if not count:
        (out / f"{name}.jsonl").unlink()
        (out / f"{name}.log").unlink()
    with (out / "ran.jsonl").open("a") as ran:
        ran.write(json.dumps(made.about | {"anomalies": count, "transactions": len(made.transactions)}) + "\n")
    return count


def kept_logs(file: Path) -> Callable[[HistoryField], None]:
    """Writes what the workers of a field logged."""

    def keep(field: HistoryField) -> None:
        lines = [
            (line.get("timestamp", ""), worker.name, json.dumps(line))
            for worker in field.scene.workers
            for line in worker.lines
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{name} {text}\n" for _, name, text in sorted(lines)))

    return keep


if __name__ == "__main__":
    sys.exit(main())
