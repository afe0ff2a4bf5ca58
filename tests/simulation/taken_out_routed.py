"""What patches `where`, `having` and routes away, for `mutants.py`."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from sluicegate.streams.aggregation import results
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.results import Results
from sluicegate.streams.handlers import forwarding
from sluicegate.streams.ownership import intake
from sluicegate.streams.ownership.intake import Intake

Patch = pytest.MonkeyPatch


def all_taken(patch: Patch) -> None:
    patch.setattr(intake, "taken", lambda groups, records: records)
    patch.setattr(intake, "fill", accept)


def held_back(patch: Patch) -> None:
    """Records of which `where` left out every one are not committed."""
    taken, accept = intake.taken, Intake.accept
    kept: list[int] = []

    def noted(groups: Any, records: Any) -> Any:
        events = taken(groups, records)
        kept.append(len(events))
        return events

    def accepts(self: Any, records: Any, now: float) -> None:
        before = self.pending
        accept(self, records, now)
        if not kept.pop():
            self.pending = before

    patch.setattr(intake, "taken", noted)
    patch.setattr(Intake, "accept", accepts)


def all_sent(patch: Patch) -> None:
    """`having` is true of every result."""
    holds = results._holds
    patch.setattr(results, "_holds", lambda name, *rest: name == "having" or holds(name, *rest))


def first_forwarded(patch: Patch) -> None:
    """`continue` is passed over."""
    taking = forwarding.taking
    patch.setattr(forwarding, "taking", lambda *all: islice(taking(*all), 1))


def one_route(patch: Patch) -> None:
    """`continue` is passed over."""
    outputs = Results._outputs

    def first(self: Any, *rest: Any) -> Iterator[Any]:
        yield from list(outputs(self, *rest))[:1]

    patch.setattr(Results, "_outputs", first)
