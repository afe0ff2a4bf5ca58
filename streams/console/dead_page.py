"""Dead letters and dead rows as the page lists them: filtered, sorted, in pages, and by their cause."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.console.wording import PAGE, number, optional, ordered, text
from sluicegate.streams.observe.http import CallFields
from sluicegate.streams.operations.dead import dead_causes
from sluicegate.streams.operations.dead.dead_causes import DeadItem
from sluicegate.streams.operations.dead.dead_changes import DeadListing
from sluicegate.streams.operations.dead.dead_letters import Letter

LONGEST_TIME = 10**9 - 1  # seconds
ORDERS: Mapping[str, Callable[[DeadItem], Any]] = {
    "age": lambda item: (item.shown["age"] is None, item.shown["age"] or 0.0),
    "agent": lambda item: item.shown["agent"],
    "reason": lambda item: item.shown["reason"],
    "attempts": lambda item: (len(item.shown["attempts"]), item.shown["attempts"]),
}


class DeadShown(NamedTuple):
    """A listing, and its rows and letters with their causes."""

    listing: DeadListing
    items: Sequence[DeadItem]


def dead_shown(listing: DeadListing) -> DeadShown:
    return DeadShown(listing, dead_causes.chosen(listing, None, None)[0])


def dead_counts(dead: DeadShown | None) -> dict[str, int] | None:
    """How many of each agent were not retried. None where it is not known: before the first reading, and where dead
    letters cannot be read."""
    if dead is None or dead.listing.missing:
        return None
    return Counter(item.shown["agent"] for item in dead.items if not item.shown["retried"])


def dead_page(dead: DeadShown, fields: CallFields) -> dict[str, Any]:
    """One page of what the fields choose, and all causes of it. Raises ConfigurationError."""
    first, (key, descending) = number(fields, "first", 0, 10**9), ordered(fields, ORDERS, "age")
    there = [item for item in dead.items if optional(fields, "retried") or not item.shown["retried"]]
    chosen = [item for item in reversed(there) if _is_chosen(item, fields)]
    page = sorted(chosen, key=key, reverse=descending)[first : first + PAGE]
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


def _is_chosen(item: DeadItem, fields: CallFields) -> bool:
    since, age = number(fields, "since", 0, LONGEST_TIME), item.shown["age"]
    wanted = {"agent": item.shown["agent"], "reason": item.shown["reason"], "cause": item.cause}
    return (
        all(optional(fields, name) in (None, value) for name, value in wanted.items())
        and (not since or (age is not None and age <= since))
        and text(fields, "search", "").casefold() in _searched(item)
    )


def _searched(item: DeadItem) -> str:
    key = item.dead.key if isinstance(item.dead, Letter) else item.dead.row.key
    return f"{item.shown['id']}\n{(key or b'').decode(errors='replace')}\n{item.shown['error']}".casefold()
