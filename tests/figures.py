"""`python -m tests.figures`: the measured figures of the pages, each with the commit and the day it comes from.

An origin is a line below figures. It holds for everything from the heading, or from the origin above it, to itself:

    *Measured on 2026-11-25 at ad6fe96c: 2 quiet cores of an AMD EPYC, 24 GiB.*

`at an unknown commit before ad6fe96c` stands where the commit cannot be found. mkdocs calls `on_page_markdown` and
`on_post_build`: the site and its Markdown twins mark the figures that are older than 60 days when they are built.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
PAGES = PROJECT / "docs"
OLD_DAYS = 60
MARK = f" **Measured more than {OLD_DAYS} days ago.**"
ORIGIN = re.compile(
    r"\*Measured on (?P<day>\d{4}-\d\d-\d\d) at (?P<unknown>an unknown commit before )?(?P<commit>[0-9a-f]{8}): "
    r"(?P<machine>[^*\n]+)\.\*"
)
FIGURE = re.compile(
    r"\bmeasured\b[^.]*\d|\bmedians\b[^.]*\d|\bmedian of \d|\d (?:µs|ns)\b|\bp50\b|\bload (?:average )?\d"
    r"|\d times (?:as fast|slower|the (?:CPU|wall))"
    r"|\btakes? about [\d.]+ (?:ms|s|seconds)\b|\d (?:MB|MiB) of memory|\btwo cores\)"
    r"|\d,\d{3} (?:rows|records|messages)(?:/s| a second)|\bCPU[- ](?:seconds?|time)\b[^.]*\d"
    r"|\| seconds \|$|\| (?:ns|k/s|messages/s|peak|instructions a record|with / without[^|]*) \|(?: |$)",
    re.IGNORECASE | re.MULTILINE,
)
"""What a measured figure looks like: a unit, or a word of a measurement, with a number."""
FENCE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)


class Origin(NamedTuple):
    page: str
    heading: str
    day: date
    commit: str
    known: bool
    machine: str

    def old(self, today: date) -> bool:
        return (today - self.day).days > OLD_DAYS


def pages() -> dict[str, str]:
    """The text of each page that has figures of ours, by its name. Those of docs/reference are made of the code."""
    files = [PROJECT / "README.md", *sorted(PAGES.rglob("*.md"))]
    names = {str(file.relative_to(PROJECT)): file for file in files if file.parent != PAGES / "reference"}
    return {name: file.read_text(encoding="utf-8") for name, file in names.items()}


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Headings, each with the text up to the next one. Blocks of code are left out."""
    parts = re.split(r"^#+ (.*)$", FENCE.sub("", text), flags=re.MULTILINE)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def origins(name: str, text: str) -> list[Origin]:
    return [
        Origin(name, heading, date.fromisoformat(line["day"]), line["commit"], not line["unknown"], line["machine"])
        for heading, section in sections(text)
        for line in ORIGIN.finditer(section)
    ]


def without_origin(text: str) -> list[str]:
    """The first line of each paragraph, list and table with figures below which no origin stands."""
    missing = []
    for heading, section in sections(text):
        tail = ORIGIN.split(section)[-1]
        missing += [f"{heading}: {block.splitlines()[0]}" for block in blocks(tail) if FIGURE.search(block)]
    return missing


def blocks(section: str) -> list[str]:
    return [block.strip() for block in re.split(r"\n\s*\n|\n(?= *- )", section) if block.strip()]


def marked(text: str, today: date) -> str:
    """The text with a mark behind each origin that is old."""

    def mark(line: re.Match[str]) -> str:
        old = (today - date.fromisoformat(line["day"])).days > OLD_DAYS
        return line[0] + MARK if old else line[0]

    return ORIGIN.sub(mark, text)


def origin_line(machine: str) -> str:
    """The origin of what is measured now, for programs that write pages."""
    command = ["git", "-C", str(PROJECT), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"*Measured on {_today()} at {commit}: {machine}.*"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return marked(markdown, _today())


def on_post_build(config: Any) -> None:
    """The twins: copies of the pages."""
    for twin in Path(config["site_dir"]).rglob("*.md"):
        text = twin.read_text(encoding="utf-8")
        if (changed := marked(text, _today())) != text:
            twin.write_text(changed, encoding="utf-8")


def _today() -> date:
    return datetime.now(UTC).date()


def main() -> int:
    today = _today()
    for name, text in pages().items():
        for origin in origins(name, text):
            commit = origin.commit if origin.known else f"before {origin.commit}"
            age = f"{(today - origin.day).days} days{', OLD' if origin.old(today) else ''}"
            print(f"{origin.page} | {origin.heading} | {origin.day} | {commit} | {age} | {origin.machine}")
    missing = [f"{name}: no origin: {place}" for name, text in pages().items() for place in without_origin(text)]
    print("\n".join(missing), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
