"""`sluicegate replay FILE AGENT --shadow`: compares the published results of an agent with the results of its input."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from sluicegate.streams.cli.opening.changing import reread
from sluicegate.streams.cli.terminal.outcome import DONE, NOT_ACCEPTED, complain
from sluicegate.streams.cli.terminal.output import print_json, print_table, print_text
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.topic_names import of_input
from sluicegate.streams.wording import counted

if TYPE_CHECKING:
    from sluicegate.streams.operations.replaying.shadowing import ShadowRange
    from sluicegate.streams.shadow.verdicts import Example, Shadowed

FAILING = ("changed", "missing", "extra", "dead", "uncertain")
DEFAULT_FAILING = "changed,missing,extra,dead"
EVERY = 10  # percent between two lines, where there is no terminal
LOOK_AFTER = 0.1  # seconds of reading between two waits for --rate


def shadow(
    file: str,
    name: str,
    wanted: "ShadowRange",
    key: str | None,
    fail_on: str,
    rate: int | None,
    json: bool,
    calls: bool = False,
) -> int:
    """Runs the command. Returns the exit code."""
    from sluicegate.connectors.kafka.clusters.routed import open_history
    from sluicegate.streams.operations.replaying.shadowing import Shadowing

    failing = _failing(fail_on)
    with reread(file, name) as (app, agent, store):
        if app.embedded:
            raise ConfigurationError(
                "the embedded broker forgets everything when its run ends: there is nothing to compare"
            )
        with (
            closing(open_history(app.brokers, f"{app.name}.{agent.name}", of_input(agent.topics))) as history,
            progress() as show,
        ):
            reading = ReadingPace(rate, show)
            shadowing = Shadowing(app, agent, store, history, wanted, reading, calls)
            shadowed = shadowing.compare(agent, None if key is None else key.encode())
    if json:
        print_json({"format": 1, "agent": name, **shadowed.document()})
    else:
        _print(file, shadowed)
    return NOT_ACCEPTED if shadowed.matches(failing) else DONE


def _failing(text: str) -> set[str]:
    names = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := sorted(names.difference(FAILING)):
        raise ConfigurationError(f"--fail-on {unknown[0]}: use {', '.join(FAILING)}, with commas between them")
    return names


class ReadingPace:
    """Satisfies sluicegate.streams.operations.replaying.shadowing.Watch: shows the progress, and reads at most
    `rate` records a second."""

    def __init__(self, rate: int | None, show: Callable[[int, int], None]) -> None:
        self._rate, self._show = rate, show
        self._began = time.monotonic()
        self.done = self.total = 0

    def expect(self, records: int) -> None:
        self.total += records
        self._show(self.done, self.total)

    def read(self, records: int) -> None:
        self.done += records
        self._show(self.done, self.total)
        if self._rate:
            ahead = self.done / self._rate - (time.monotonic() - self._began)
            if ahead > LOOK_AFTER:
                time.sleep(ahead)


@contextmanager
def progress() -> Iterator[Callable[[int, int], None]]:
    """A function `show(done, total)`. On a terminal it shows a bar with the rate and the time left, elsewhere a line
    for each tenth."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), MofNCompleteColumn(), "{task.fields[rate]}", TimeRemainingColumn()
    with Progress("{task.description}", *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("records", total=None, rate="")

        def show(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield show


def _lines() -> Callable[[int, int], None]:
    percent = 0
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal percent
        tenth = 100 * done // max(1, total) // EVERY
        if tenth > percent:
            percent = tenth
            rate = done / max(time.monotonic() - began, 0.001)
            complain(f"{done:,} of {total:,} records, {rate:,.0f}/s, {(total - done) / rate:.0f} s left")

    return show


def _print(file: str, shadowed: "Shadowed") -> None:
    verdicts = list(shadowed.results.counts)
    rows: list[list[Any]] = [
        [name, *(f"{figures.counts[verdict]:,}" for verdict in verdicts)]
        for name, figures in (
            ("results", shadowed.results),
            ("dead letters", shadowed.dead),
            ("open groups", shadowed.open),
        )
    ]
    print_table(("compared", *(f">{verdict}" for verdict in verdicts)), rows)
    print(
        f"{shadowed.records:,} records, {shadowed.published:,} published results, {shadowed.left_out:,} groups left out"
    )
    for part in (shadowed.results, shadowed.dead, shadowed.open):
        for example in part.shown():
            print_text(example_line(example))
            print(f"  sluicegate explain {file} {example.id}")
    for note in shadowed.notes:
        complain(f"sluicegate: {note}")


def example_line(example: "Example") -> str:
    """`changed: UA in clicks/2: live 5812..9120, 100 records, count; new 5812..7433, 50 records, count`"""
    live, new = (
        f"{side} {it.first}..{it.last}, {counted(it.records, 'record')}, {it.reason}" if it else f"{side} nothing"
        for side, it in (("live", example.live), ("new", example.new))
    )
    differs = f"; differs: {', '.join(example.differs)}" if example.differs else ""
    return f"{example.verdict}: {example.key} in {example.topic}/{example.partition}: {live}; {new}{differs}"


def wanted_range(last: str | None, since: str | None, until: str | None) -> "ShadowRange":
    """Raises ConfigurationError."""
    from sluicegate.streams.operations.replaying.shadowing import ShadowRange
    from sluicegate.streams.units import duration

    if last is not None and since is not None:
        raise ConfigurationError("--last and --from both name the start: use one of them")
    span = duration(last) if last is not None else None
    if last is not None and not span:
        raise ConfigurationError(f"--last {last}: write a duration, such as 1h or 30m")
    begin, begin_at = (0, None) if since == "earliest" else _place("--from", since)
    end, end_at = _place("--to", until)
    return ShadowRange(begin, time.time() - span if span else begin_at, end, end_at)


def _place(option: str, text: str | None) -> tuple[int | None, float | None]:
    from sluicegate.streams.units import moment

    if text is None:
        return None, None
    if text.isdigit() and len(text) <= 18:
        return int(text), None
    at = moment(text)
    if at is None:
        start = ", or earliest" if option == "--from" else ""
        raise ConfigurationError(f"{option} {text}: write an offset or an RFC 3339 time{start}")
    return None, at
