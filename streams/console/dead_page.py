"""Dead letters and dead rows for the page: filtered, sorted, in pages, and by cause."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.console.wording import PAGE, number, optional, ordered, text
from sluicegate.streams.observe.http import CallFields
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.operations.dead import dead_causes
from sluicegate.streams.operations.dead.dead_causes import DeadItem
from sluicegate.streams.operations.dead.dead_changes import DeadListing
from sluicegate.streams.operations.dead.dead_letters import Letter

LONGEST_TIME = 10**9 - 1  # seconds
ORDERS: Mapping[str, Callable[[DeadItem], Any]] = {
    "age": lambda item: (not isinstance(item.dead, Letter), isinstance(item.dead, Letter) and -item.dead.at),
    "agent": lambda item: item.shown["agent"],
    "reason": lambda item: item.shown["reason"],
    "attempts": lambda item: (len(item.shown["attempts"]), item.shown["attempts"]),
}


LetterCounts = Mapping[int, float]
"""The number of records that became dead letters in each worker process, by its process id."""


class DeadShown(NamedTuple):
    """A listing, and its rows and letters with their causes. `counts` are the workers' counts before it was read."""

    listing: DeadListing
    items: Sequence[DeadItem]
    counts: LetterCounts


def dead_shown(listing: DeadListing, counts: LetterCounts) -> DeadShown:
    return DeadShown(listing, dead_causes.select(listing, None, None)[0], counts)


def letter_counts(reports: Sequence[WorkerReport]) -> LetterCounts:
    counts: dict[int, float] = {}
    for report in reports:
        dead = (value for name, _, value in report.metrics if name == "records_dead" and not isinstance(value, list))
        counts[report.pid] = counts.get(report.pid, 0.0) + sum(dead)
    return counts


def dead_facts(newest: tuple[DeadShown, float] | None, counts: LetterCounts) -> dict[str, Any]:
    """The number of dead records at the last reading and the age of the reading in seconds; None if it is not known.
    `dead_since` is the number of records that became dead letters of this run after it."""
    shown, age = newest or (None, None)
    before = shown.counts if shown is not None else {}
    since = sum(max(0.0, count - before.get(pid, 0.0)) for pid, count in counts.items())
    return {"dead": dead_counts(shown), "dead_age": age, "dead_since": int(since)}


def dead_counts(dead: DeadShown | None) -> dict[str, int] | None:
    """The number of dead records of each agent that were not retried. None if it is not known: before the first
    reading, and if dead letters cannot be read."""
    if dead is None or dead.listing.missing:
        return None
    return Counter(item.shown["agent"] for item in dead.items if not item.shown["retried"])


def dead_page(dead: DeadShown, fields: CallFields) -> dict[str, Any]:
    """One page of the selected records, and all causes of the selection. Raises ConfigurationError."""
    first, (order, descending) = number(fields, "first", 0, 10**9), ordered(fields, ORDERS, "age")
    retried = optional(fields, "retried")
    there = [item for item in dead.items if retried or not item.shown["retried"]]
    chosen = _chosen(there[::-1], fields)
    page = sorted(chosen, key=ORDERS[order], reverse=descending)[first : first + PAGE]
    return {
        "dead": [{**item.shown, "cause": item.cause} for item in page],
        "causes": [cause._asdict() for cause in dead_causes.causes(chosen)[:PAGE]],
        "reasons": sorted({item.shown["reason"] for item in there})[:PAGE],
        "found": len(chosen),
        "all": len(there),
        "first": first,
        "page": PAGE,
        "missing": dead.listing.missing or None,
        "older": dead.listing.older,
    }


def _chosen(items: Sequence[DeadItem], fields: CallFields) -> Sequence[DeadItem]:
    since, search = number(fields, "since", 0, LONGEST_TIME), text(fields, "search", "").casefold()
    for name in ("agent", "reason"):
        if (value := optional(fields, name)) is not None:
            items = [item for item in items if item.shown[name] == value]
    if (cause := optional(fields, "cause")) is not None:
        items = [item for item in items if item.cause == cause]
    if since:
        items = [item for item in items if item.shown["age"] is not None and item.shown["age"] <= since]
    return [item for item in items if search in _searched(item)] if search else items


def _searched(item: DeadItem) -> str:
    key = item.dead.key if isinstance(item.dead, Letter) else item.dead.row.key
    return f"{item.shown['id']}\n{(key or b'').decode(errors='replace')}\n{item.shown['error']}".casefold()
