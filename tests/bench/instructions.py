"""How many instructions of the processor a record of job J1 takes in the worker, of one tree or of several.

    python -m tests.bench.instructions [TREE ...]

The worker runs in one process, without Kafka, on a log and a store in memory. Other programs on the machine change
nothing about the count, so differences of one percent can be seen. Each tree is run twice under valgrind (callgrind),
for 1 and for 100,000 records; the difference is the figure. It takes about two minutes for a tree.
"""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
RECORDS, PER_GROUP, PARTITIONS = 100_000, 100, 4
TURNS = RECORDS // 250 + 5  # a turn takes 250 records; the first ones claim the partitions
COUNTED = re.compile(r"Collected : (\d+)")


def run(records: int) -> None:
    """The job, in this process. Other trees have the same names."""
    from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
    from tests.unit.engine.driver import Driver, Log, ManualClock, memory

    compute = (Reducer("n", "count"), Reducer("sum", "sum", "amount"), Reducer("max", "max", "amount"))
    rule = Aggregation(count=PER_GROUP, since_first=600.0, compute=compute)
    log, clock, chance = Log(), ManualClock(), random.Random(1)
    for topic in ("in", "out", "dead"):
        log.create(topic, PARTITIONS)
    for number in sorted(range(RECORDS), key=lambda number: number / RECORDS + chance.random()):
        key, pad = number // PER_GROUP, "x" * 130
        value = {"id": f"{number:032x}", "amount": number % 997, "pad": pad, "key": f"k{key}"}
        log.append("in", key % PARTITIONS, b"k%d" % key, json.dumps(value).encode())
    driver = Driver(Agent("sums", ("in",), rule, Destination("out"), "dead"), memory(clock), log, clock)
    driver.give(*range(PARTITIONS)).turns(TURNS if records > 1 else 5)
    assert sum(map(len, log.topics["out"])) == (RECORDS // PER_GROUP if records > 1 else 0)


def count(tree: Path, records: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, __file__, f"{records}"]
    environ = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "SLUICEGATE_NATIVE": "off"}
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=True)
    match = COUNTED.search(done.stderr)
    assert match is not None, done.stderr
    return int(match[1])


def main(trees: list[Path]) -> None:
    for tree in trees:
        count(tree, 1)  # compiles the modules
        cost = (count(tree, RECORDS) - count(tree, 1)) / RECORDS
        print(f"{cost:,.0f} instructions a record: {tree}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] in (["1"], [f"{RECORDS}"]):
        run(int(sys.argv[1]))
    else:
        main([Path(argument).resolve() for argument in sys.argv[1:]] or [PROJECT])
