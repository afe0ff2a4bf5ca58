"""`python -m tests.ran`: keeps what CI ran. Each run of `make test` and `make test-rest` leaves a record in `.reports`.
The records of a day go into one small file of docs/proof/ci, and docs/proof/ci.md shows the last days."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.stages import PROJECT, REPORTS

KEPT = PROJECT / "docs" / "proof" / "ci"
PAGE = PROJECT / "docs" / "proof" / "ci.md"
SHOWN = 30
"""Days on the page."""
HEAD = """# What CI ran

Written by `python -m tests.ran`; do not edit. `make test` is the core, the same tests every day. `make test-rest` runs
a part of all other tests, another part each day. A stage that failed is named. Seconds are those of all stages, without
the set-up.

| day | run | commit | passed | failed | skipped | not begun | seconds | failed stages |
|---|---|---|---|---|---|---|---|---|
"""

RunRecord = Mapping[str, Any]


def kept(folder: Path = KEPT) -> dict[str, Sequence[RunRecord]]:
    """The records by day, the newest day first."""
    files = sorted(folder.glob("*.json"), reverse=True)
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def merged(known: Sequence[RunRecord], fresh: Sequence[RunRecord]) -> list[RunRecord]:
    """A later run of the same tests on the same commit replaces the earlier one."""
    by_run = {(record["run"], record["commit"], record["part"]): record for record in (*known, *fresh)}
    return list(by_run.values())


def page(days: Mapping[str, Sequence[RunRecord]]) -> str:
    lines = [line(day, record) for day, records in list(days.items())[:SHOWN] for record in records]
    return HEAD + "".join(f"{line}\n" for line in lines)


def line(day: str, record: RunRecord) -> str:
    stages = record["stages"]
    counts = [
        str(sum(stage[name] for stage in stages.values())) for name in ("passed", "failed", "skipped", "not_begun")
    ]
    seconds = sum(stage["seconds"] for stage in stages.values())
    wrong = ", ".join(name for name, stage in stages.items() if not stage["good"])
    return f"| {day} | {record['run']} | {record['commit'][:8]} | {' | '.join(counts)} | {seconds} | {wrong} |"


def main() -> None:
    fresh = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(REPORTS.glob("ran-*.json"))]
    if not fresh:
        raise SystemExit("there is no record in .reports: run `make test` first")
    KEPT.mkdir(exist_ok=True)
    day = date.today().isoformat()
    records = merged(kept().get(day, ()), fresh)
    (KEPT / f"{day}.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept()), encoding="utf-8")


if __name__ == "__main__":
    main()
