"""`python -m tests.stages core|rest|all`: the stages one after the other, all of them even when one fails. The last
line counts the tests. `.reports/failed-RUN.txt` names each failed test with the end of its traceback; `.ci/run` prints
this file last, because CI keeps only the end of a long output.

`make test` is `core`; tests/selection.py says which tests that is. `.reports/ran-RUN.json` holds what ran, on which
commit, and for how long: `python -m tests.ran` keeps it.
"""

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.selection import DAY, NOT_BEGUN, RUN, today

PROJECT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
REPORTS = PROJECT / ".reports"  # JUnit, of the last run: tests/contracts/COVERAGE.md is made of them

RUNS = ("core", "rest", "all")
CHECKS = [[str(BIN / "ruff"), "check", "."], [str(BIN / "ruff"), "format", "--check", "."], [str(BIN / "mypy")]]

# Folders and options of one pytest call each; timeouts are seconds, of one test and of the call.
STAGES = {
    "unit": [
        *(
            "tests/unit",
            "tests/golden",
            "tests/pairs",
            "tests/contracts",
            "tests/model",
            "tests/expressions",
            "tests/fuzz",
            "tests/soak",
            "tests/histories/test_checker.py",
            "tests/histories/test_workloads.py",
        ),
        *("--ignore", "tests/soak/test_soak.py", "--ignore", "tests/soak/test_calm.py"),
        *("-n", "3", "--timeout", "240", "--session-timeout", "1800"),
    ],
    "simulation": ["tests/simulation", "-n", "2", "--timeout", "280", "--session-timeout", "600"],
    "integration": [
        *("tests/integration", "tests/servers", "tests/bounds/test_growth.py", "tests/hostile"),
        *("-n", "3", "--timeout", "180", "--session-timeout", "900"),
    ],
    "chaos": ["tests/chaos", "-n", "3", "--timeout", "300", "--session-timeout", "1200"],
    "soak": [
        *("tests/soak/test_soak.py", "tests/soak/test_calm.py"),
        *("tests/histories/test_histories.py", "tests/histories/test_twins.py", "-s", "--timeout", "600"),
    ],
}
# Real processes with deadlines: a machine that others use may stall one for longer. Where nothing but deadlines failed
# (never a verdict, never an assertion), those few are tried once more, and it is said.
TRIED_AGAIN = ("unit", "integration", "chaos", "soak")
SAID = 25  # lines about a failed test
FEW = 8  # of some 450 with real processes; more than these are no accident


class Count(NamedTuple):
    """How a pytest call ended; a test that could not be set up has failed."""

    passed: int
    failed: int
    skipped: int
    not_begun: int = 0


def count(report: Path) -> Count:
    """From a JUnit report; without one the call itself has failed, and so has one that ran no test."""
    if not report.exists():
        return Count(0, 1, 0)
    root = ElementTree.parse(report).getroot()
    suites = root.findall("testsuite")
    names = ("tests", "failures", "errors", "skipped")
    total, failures, errors, skipped = (sum(int(suite.get(name, 0)) for suite in suites) for name in names)
    failed = failures + errors
    not_begun = sum(NOT_BEGUN in skip.get("message", "") for skip in root.iter("skipped"))
    return Count(max(0, total - failed - skipped), failed if total else 1, skipped - not_begun, not_begun)


class StageRun(NamedTuple):
    """`good`: each of its commands succeeded."""

    name: str
    good: bool
    seconds: float
    count: Count


def timed(name: str, commands: list[list[str]]) -> StageRun:
    """Run the commands of a stage, and say how long they took."""
    began = time.monotonic()
    codes = [subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL).returncode for command in commands]
    seconds = time.monotonic() - began
    print(f"stage {name}: {seconds:.0f} s{'' if not any(codes) else ' (failed)'}", flush=True)
    return StageRun(name, not any(codes), seconds, Count(0, 0, 0))


def staged(name: str, options: list[str], report: Path) -> StageRun:
    """One pytest call."""
    report.unlink(missing_ok=True)
    run = timed(name, [[sys.executable, "-m", "pytest", *options]])
    return run._replace(count=count(report))


def record(run: str, ran: list[StageRun]) -> dict[str, object]:
    """What ran, for people who read it later."""
    asked = ["git", "log", "-1", "--format=%H %cs"]
    commit, _, day = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True).stdout.strip().partition(" ")
    stages = {one.name: {"good": one.good, "seconds": round(one.seconds), **one.count._asdict()} for one in ran}
    return {
        "run": run,
        "commit": commit,
        "committed": day,
        "part": today(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "stages": stages,
    }


def only_late(report: Path) -> bool:
    """Did every test that failed fail by a deadline of tests.waiting?"""
    if not report.exists():
        return False
    cases = [fault for kind in ("failure", "error") for fault in ElementTree.parse(report).getroot().iter(kind)]
    return bool(cases) and all(case.get("message", "").startswith("TimeoutError: ") for case in cases)


def faults(report: Path) -> list[str]:
    """Each failed test of a report: its name, then the last lines of what pytest says about it."""
    if not report.exists():
        return [f"{report.stem}: pytest ended without a report"]
    strs = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for fault in [*case.iter("failure"), *case.iter("error")]:
            problems = [f"    {line[:200]}" for line in (fault.text or "").splitlines()[-SAID:]]
            strs.append("\n".join([f"{case.get('classname')}::{case.get('name')}", *problems]))
    return strs


def stages(run: str, day: int = 0) -> dict[str, list[str]]:
    """Those that have tests in this run. The rest begins each day with another one: its time may end before its tests
    do."""
    if run == "core":
        return {name: options for name, options in STAGES.items() if name != "soak"}
    first = day % len(STAGES) if run == "rest" else 0
    names = list(STAGES)
    return {name: STAGES[name] for name in names[first:] + names[:first]}


def parsed(args: list[str]) -> str:
    if len(args) != 1 or args[0] not in RUNS:
        sys.exit(f"usage: python -m tests.stages {'|'.join(RUNS)}")
    return args[0]


def alone(options: list[str]) -> list[str]:
    """The same without parallel workers."""
    at = options.index("-n") if "-n" in options else len(options)
    return options[:at] + options[at + 2 :]


def tried_again(first: StageRun, options: list[str]) -> tuple[StageRun, Path]:
    """The stage with the tests that came too late run once more, and the report of that."""
    print(f"stage {first.name}: {first.count.failed} came too late and are tried once more, alone", flush=True)
    report = REPORTS / f"{first.name}-again.xml"
    again = staged(f"{first.name}, second try", [*alone(options), "--last-failed", f"--junit-xml={report}"], report)
    passed, failed = first.count.passed + again.count.passed, first.count.failed - again.count.passed
    total = first.count._replace(passed=passed, failed=failed)
    return StageRun(first.name, again.good, first.seconds + again.seconds, total), report


def main(run: str) -> int:
    os.environ[RUN], os.environ[DAY] = run, str(today())
    ran: list[StageRun] = []
    failed: list[str] = []
    if run == "rest":
        print(f"{DAY}={os.environ[DAY]} repeats the part of this day", flush=True)
    else:
        ran.append(timed("check", CHECKS))
        failed += [] if ran[0].good else ["check: ruff or mypy found something; `make check` repeats it\n"]
    REPORTS.mkdir(exist_ok=True)
    for name, options in stages(run, today()).items():
        report = REPORTS / f"{name}.xml"
        one = staged(name, [*options, f"--junit-xml={report}"], report)
        if not one.good and name in TRIED_AGAIN and one.count.failed <= FEW and only_late(report):
            one, report = tried_again(one, options)
        ran.append(one)
        failed += [] if one.good else faults(report)
    (REPORTS / f"failed-{run}.txt").write_text("".join(f"failed: {fault}\n" for fault in failed))
    (REPORTS / f"ran-{run}.json").write_text(json.dumps(record(run, ran), indent=1) + "\n")
    total = Count(*(sum(numbers) for numbers in zip(*(one.count for one in ran), strict=True)))
    if total.not_begun:
        print(f"{total.not_begun} were not begun, because the time of this run was over", flush=True)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return 0 if all(one.good for one in ran) and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main(parsed(sys.argv[1:])))
