"""The display of the demo: progress, the table of carriers, and the plot."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sluicegate.streams.contracts.headers import ID
from sluicegate.streams.demo.recount import OutputRecord

ShowAdvance = Callable[[int, str], None]
WIDTH = 48
EVERY = 10  # percent, where there is no terminal


@dataclass
class Carrier:
    """The sum of the results of one carrier; delays in minutes."""

    name: str
    flights: int = 0
    by_count: int = 0
    by_timeout: int = 0
    total: float = 0.0
    worst: float = float("-inf")
    without_delay: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.flights if self.flights else 0.0


def carriers(results: Sequence[OutputRecord], dead: Sequence[OutputRecord]) -> list[Carrier]:
    """By number of flights, the largest first. Repeats of one id count once."""
    by_name: dict[str, Carrier] = {}
    for message in _unique(results):
        document = json.loads(message.value or b"{}")
        carrier = by_name.setdefault(document["key"], Carrier(document["key"]))
        carrier.flights += document["count"]
        carrier.by_count += document["reason"] == "count"
        carrier.by_timeout += document["reason"] == "timeout"
        carrier.total += document["total"]
        carrier.worst = max(carrier.worst, document["worst"])
    for message in _unique(dead):
        name = (message.key or b"?").decode()
        by_name.setdefault(name, Carrier(name)).without_delay += 1
    return sorted(by_name.values(), key=lambda carrier: -carrier.flights)


def _unique(messages: Sequence[OutputRecord]) -> Iterable[OutputRecord]:
    return {message.header(ID): message for message in messages}.values()


def rows(by_carrier: Sequence[Carrier]) -> list[list[str]]:
    """The cells of the table."""
    cells = []
    for c in by_carrier:
        counts = [f"{number:,}" for number in (c.flights, c.by_count, c.by_timeout)]
        cells.append([c.name, *counts, f"{c.mean:.1f}", f"{c.worst:g}", f"{c.without_delay:,}"])
    return cells


COLUMNS = ("carrier", ">flights", ">results by count", ">by timeout", ">mean delay", ">worst", ">without delay")


def plot(by_carrier: Sequence[Carrier], width: int = WIDTH) -> list[str]:
    """Horizontal bars of the mean delays, one line for each carrier, the longest of `width` characters."""
    by_mean = sorted((carrier for carrier in by_carrier if carrier.flights), key=lambda carrier: -carrier.mean)
    longest = max((abs(carrier.mean) for carrier in by_mean), default=0) or 1
    return [f"{c.name:>4} {_bar(abs(c.mean) / longest, width)} {c.mean:.1f}" for c in by_mean]


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


@contextmanager
def progress(total: int) -> Iterator[ShowAdvance]:
    """`advance(done, note)`: a bar with the rate and the time left on a terminal, elsewhere a line for each tenth."""
    if not sys.stdout.isatty():
        yield _lines(total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    counts = BarColumn(), MofNCompleteColumn(), "{task.fields[rate]}", TimeRemainingColumn()
    with Progress("{task.description}", *counts, "{task.fields[note]}") as bar:
        task = bar.add_task("flights", total=total, rate="", note="")

        def advance(done: int, note: str) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, rate=f"{speed:,.0f}/s" if speed else "", note=note)

        yield advance


def _lines(total: int) -> ShowAdvance:
    percent = -1

    def advance(done: int, note: str) -> None:
        nonlocal percent
        tenth = 100 * done // max(1, total) // EVERY
        if tenth > percent:
            percent = tenth
            print(f"{done:,} of {total:,} flights {note}".rstrip(), flush=True)

    return advance
