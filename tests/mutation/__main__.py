"""`make mutate`: each guard of the tables is taken out, in a copy of the tree, and its tests are run; one of them must
fail.

Writes docs/proof/mutation.md. With words, the report keeps the results of the other guards. Exit code 1 when a guard
survived.
"""

import argparse
import os
import queue
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tests.mutation import (
    addresses,
    child,
    clauses,
    clusters,
    cold_windows,
    console,
    correlations,
    engine,
    expressions,
    flow,
    formats,
    handled,
    kafka,
    late,
    lookups,
    macs,
    proofs,
    rebuilding,
    report,
    rereading,
    rules,
    sending,
    sliding,
    statistics,
    stores,
    tables,
    topics,
    windows,
)
from tests.mutation.guard import Guard
from tests.servers import jars

PROJECT = Path(__file__).resolve().parents[2]
COPIED = (
    *("sluicegate", "streams", "connectors", "schemas", "tests", "examples", "docs"),
    *("pyproject.toml", "README.md", "Makefile"),
)
GUARDS = (
    *addresses.GUARDS,
    *clusters.GUARDS,
    *console.GUARDS,
    *engine.GUARDS,
    *sending.GUARDS,
    *handled.GUARDS,
    *macs.GUARDS,
    *expressions.GUARDS,
    *flow.GUARDS,
    *formats.GUARDS,
    *kafka.GUARDS,
    *lookups.GUARDS,
    *proofs.GUARDS,
    *rebuilding.GUARDS,
    *rereading.GUARDS,
    *windows.GUARDS,
    *cold_windows.GUARDS,
    *sliding.GUARDS,
    *clauses.GUARDS,
    *late.GUARDS,
    *correlations.GUARDS,
    *rules.GUARDS,
    *statistics.GUARDS,
    *stores.GUARDS,
    *tables.GUARDS,
    *topics.GUARDS,
)
SECONDS = 420  # of one pytest call
AT_ONCE = 2
PROMISES = "not test_without and not twin and not test_if_only"  # a twin fails for many reasons
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
OPTIONS = ("-q", "-p", "no:cacheprovider", "--no-header", "--timeout", "240")


class Run(NamedTuple):
    """How one call of pytest ended: `code` None after SECONDS, `failed` the first test that failed."""

    code: int | None
    failed: str
    output: str


def run(tree: Path, *arguments: str) -> Run:
    code, output = child.call(tree, [*OPTIONS, *arguments], SECONDS)
    match = FAILED.search(output)
    return Run(code, match[1] if match else "", output)


def attempt(tree: Path, guard: Guard) -> str:
    """The first test that fails without the guard, or what happened instead."""
    path = tree / guard.file
    whole = path.read_text()
    path.write_text(whole.replace(guard.text, guard.instead))
    try:
        for tests in guard.tests:
            made = run(
                tree,
                "-x",
                tests,
                *(() if "::" in tests else ("-k", f"({guard.only}) and {PROMISES}" if guard.only else PROMISES)),
            )
            if made.code is None:
                return f"{report.HUNG} ({tests})"
            if made.failed:
                return made.failed
            if made.code not in (0, 5):
                print(made.output[-3000:], file=sys.stderr)
                return f"{report.BROKEN} ({tests})"
    finally:
        path.write_text(whole)
    return report.SURVIVED


def copied(tree: Path) -> Path:
    """A copy of the project's files in `tree`, which is made."""
    tree.mkdir()
    for name in COPIED:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(
                source, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(source, tree / name)
    return tree


def chosen(words: Sequence[str]) -> Iterator[Guard]:
    return (guard for guard in GUARDS if not words or any(word in f"{guard.promise} {guard.file}" for word in words))


def main(words: Sequence[str]) -> int:
    tests = report.read(PROJECT, GUARDS) if words else {}
    os.environ |= {"SLUICEGATE_SERVERS_CACHE": str(jars.cache()), "COLUMNS": "400"}
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trees = queue.SimpleQueue[Path]()
        for number in range(AT_ONCE):
            trees.put(copied(Path(folder, f"tree{number}")))

        def tried(guard: Guard) -> tuple[Guard, str]:
            tree = trees.get()
            try:
                return guard, attempt(tree, guard)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in as_completed([pool.submit(tried, guard) for guard in chosen(words)]):
                guard, result = done.result()
                tests[guard.promise] = result
                print(f"{guard.promise}: {result}", flush=True)
                report.write(PROJECT, GUARDS, tests)
        _judge([guard.promise for guard in chosen(words)], tests, trees.get())
    report.write(PROJECT, GUARDS, tests)
    return 0 if all(report.missed(tests[guard.promise]) for guard in chosen(words)) else 1


def _judge(promises: Sequence[str], results: dict[str, str], tree: Path) -> None:
    """What fails with every guard in its place proves nothing."""
    tests = sorted({results[promise] for promise in promises if report.missed(results[promise])})
    failing = set(FAILED.findall(run(tree, *tests).output)) if tests else set()
    for promise in [promise for promise in promises if results[promise] in failing]:
        results[promise] = f"{report.BROKEN} ({results[promise]} fails with the guard, too)"
        print(f"{promise}: {results[promise]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORDS", help="only guards whose promise or file has one of these")
    sys.exit(main(parser.parse_args().words))
