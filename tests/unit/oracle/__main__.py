"""`python -m tests.unit.oracle --seeds 10000 --first 0`: plays so many seeds, and shows those that differ, shrunk."""

import argparse
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sluicegate.streams.errors import ConfigurationError
from tests.unit.oracle.cases import case
from tests.unit.oracle.playing import difference, shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.unit.oracle", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="how many of the seeds that differ are shown")
    wanted = parser.parse_args()
    differing, refused = [], 0
    with TemporaryDirectory() as folder:
        file = Path(folder, "file.yaml")
        for seed in range(wanted.first, wanted.first + wanted.seeds):
            try:
                with redirect_stdout(StringIO()):  # the log
                    text = difference(case(seed), file)
            except ConfigurationError as error:
                refused += 1
                if refused <= 3:
                    print(f"seed {seed} is not a file: {error}", file=sys.stderr)
                continue
            if text:
                differing.append(seed)
                if len(differing) <= wanted.show:
                    with redirect_stdout(StringIO()):
                        small = shrunk(case(seed), file)
                        text = difference(small, file)
                    print(f"seed {seed}\n{small}\n{text}\n", flush=True)
    print(f"{wanted.seeds} seeds: {len(differing)} differ {differing[:40]}, {refused} are not file")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
