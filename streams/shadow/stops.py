"""The events between the records of a shadow. They come from the published results, or from the owner's clock."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from sys import maxsize
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.shadow.published import Published, PublishedResult
from sluicegate.streams.shadow.witness import Witness

CUT, SILENCE, MOMENT, BEGIN = 0, 1, 2, 3  # what happens before the record at an offset, in this order


class FoldStop(NamedTuple):
    """An event before the record at this offset: a CUT or a SILENCE of a published result, a MOMENT of the owner's
    clock, or the BEGIN of a group of `key`."""

    offset: int
    kind: int
    key: bytes = b""
    live: PublishedResult | None = None


class FoldStops:
    """The events of one range in their order. `moments` are the offsets of records whose moment is known. `begins` are
    the keys of published and open groups by their first records."""

    def __init__(
        self,
        witness: Witness,
        live: Agent,
        begins: Mapping[int, bytes],
        moments: Iterable[int],
        comparable: bool,
        windowed: bool,
    ) -> None:
        begin, end = witness.begin, witness.end
        stops = [FoldStop(begin, MOMENT)]
        if comparable:
            stops += [FoldStop(first, BEGIN, key) for first, key in begins.items() if not windowed]
            stops += cuts(witness.published, begin, live)
        if windowed:
            stops += _silences(witness.published)
        stops += [FoldStop(offset + more, MOMENT) for offset in moments for more in (0, 1)]
        self._stops = sorted((stop for stop in stops if begin <= stop.offset <= end), key=lambda stop: stop[:3])
        self._next = 0

    @property
    def next(self) -> float:
        """The offset of the next event; infinity after the last one."""
        return self._stops[self._next].offset if self._next < len(self._stops) else inf

    def before(self, offset: int) -> Iterator[FoldStop]:
        """Passes the events before the record at this offset."""
        while self.next <= offset:
            self._next += 1
            yield self._stops[self._next - 1]


def _silences(published: Published) -> Iterator[FoldStop]:
    """The windows that silence closed."""
    for live in published.results.values():
        if live.window is not None and live.window.by == "idle":
            yield FoldStop(live.window.next, SILENCE, b"", live)


def cuts(published: Published, begin: int, agent: Agent) -> Iterator[FoldStop]:
    """The end of each published result that the input does not show, or that began before `begin`."""
    window = agent.aggregation.window if agent.aggregation else None
    together = window is not None and window.windower.together  # the windows of a key end together
    results = [*published.results.values()]
    if published.revised():
        results.sort(key=lambda live: in_order(live.number))
    at_once = defaultdict[object, list[PublishedResult]](list)
    for live in results:
        if live.replayable and live.first >= begin:
            continue
        if live.window is not None and live.window.by == "at_most":
            yield FoldStop(live.window.next, CUT, live.key, live)
        elif not together or live.window is None or live.window.by:
            yield FoldStop(live.last + 1, CUT, live.key, live)
        else:
            at_once[live.key, live.reason, live.closed].append(live)
    by_key = defaultdict[bytes, list[PublishedResult]](list)
    for live in results if at_once else ():
        by_key[live.key].append(live)
    for windows in at_once.values():
        yield from _at_once(windows, by_key[windows[0].key])


def _at_once(ended: Sequence[PublishedResult], others: Sequence[PublishedResult]) -> Iterator[FoldStop]:
    """The cuts of windows of one key that a limit or an operator ended at one moment. Windows that share records ended
    together, behind all of their records and those of the windows that ended before them."""
    first, last = maxsize, -1
    for live in sorted(ended, key=lambda group: -group.last):
        if live.last < first:
            first, last = live.first, live.last
            before = [other.last for other in others if other.first <= last and _starts(other) < _starts(live)]
            last = max([last, *before])
        first = min(first, live.first)
        yield FoldStop(last + 1, CUT, live.key, live)


def _starts(live: PublishedResult) -> int:
    return live.window.start if live.window is not None else 0
