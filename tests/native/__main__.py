"""`python -m tests.native`: writes docs/proof/native.md. It needs cargo, and `make native` before it.

    python -m tests.native [--records 1500] [--memory 10000000]

It judges mutated records (27 of each record), reads one record again and again and looks at the memory, and builds each
twin and runs the tests with it. Ends with 1 when a twin was not found or the memory grew.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psutil
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.figures import origin_line
from tests.native.build import PROJECT, built, tested
from tests.native.same import DECLINED, REFUSED, TAKEN, both, drawn, judged
from tests.native.twins import TWINS
from tests.unit.schemas.avros import SHOP, by, cases
from tests.unit.schemas.test_avro import ORDER

PLACE = PROJECT / "docs" / "proof" / "native.md"
HEAD = """# The native reader beside Python

Written by `python -m tests.native` after `make native`; do not edit. `make test-native` runs the same tests,
without the twins.

"""
MOST_GROWTH = 1.0  # MiB
MUTATIONS = 27


def mutations(records: int) -> Counter[str]:
    """What became of mutations of so many random records. Raises AssertionError for the first that differs."""
    total: Counter[str] = Counter()

    @seed(time.time_ns())
    @settings(database=None, deadline=None, max_examples=records, suppress_health_check=[*HealthCheck])
    @given(cases(), st.data())
    def tried(case: tuple[Any, Any], data: st.DataObject) -> None:
        schema, value = case
        written, random = by(schema).encode(value), Random(data.draw(st.integers(0, 2**32)))
        total.update(judged(drawn(data, schema), written, random, MUTATIONS))

    tried()
    return total


def growth(records: int) -> float:
    """MiB by which the process grows while it reads records, half of which are declined."""
    value = by(SHOP).encode(ORDER)
    plain = both(SHOP, None).plain
    assert plain is not None
    assert plain(value)
    assert plain(value[:-1]) is None
    process, broken = psutil.Process(), value[:-1]
    for _ in range(100_000):
        plain(value)
    begin = process.memory_info().rss
    for _ in range(records // 2):
        plain(value)
        plain(broken)
    return float(process.memory_info().rss - begin) / 2**20


def twins() -> dict[str, str]:
    """The first test that fails without each promise. Raises RuntimeError when one fails as it is."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        if failed := tested(built(Path(folder, "whole"), None)):
            raise RuntimeError(f"as it is, {failed} fails")
        for number, twin in enumerate(TWINS):
            results[twin.promise] = tested(built(Path(folder, str(number)), twin))
            print(f"{twin.promise}: {results[twin.promise] or 'SURVIVED'}", file=sys.stderr, flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native")
    parser.add_argument("--records", type=int, default=1_500)
    parser.add_argument("--memory", type=int, default=10_000_000)
    options = parser.parse_args()
    judgements, grown, problems = mutations(options.records), growth(options.memory), twins()
    mutated = sum(judgements[verdict] for verdict in (TAKEN, DECLINED, REFUSED))
    lines = [
        f"Of {options.records:,} random records, {judgements[f'whole {TAKEN}']:,} were taken with the bytes of Python.",
        f"Of {mutated:,} mutations of them, {judgements[TAKEN]:,} were taken with the bytes of Python.",
        f"Python refused {judgements[REFUSED]:,} mutations, and none of these was taken.",
        f"The others were declined and read in Python: {judgements[DECLINED]:,}.",
        "",
        f"A process that read {options.memory:,} records, half of them declined, grew by {grown:.1f} MiB.",
        "",
        origin_line(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f}"),
        "",
        f"{len(problems)} twins, {sum(map(bool, problems.values()))} found.",
        "",
        "| promise | first test that fails without it |",
        "|---|---|",
        *(f"| {promise} | {f'`{test}`' if test else 'SURVIVED'} |" for promise, test in problems.items()),
    ]
    PLACE.write_text(HEAD + "\n".join(lines) + "\n")
    return 0 if all(problems.values()) and grown <= MOST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
