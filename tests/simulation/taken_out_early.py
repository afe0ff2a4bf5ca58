"""What patches a protection of early results or of deadlines from the data away, for `mutants.py`."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import pytest

from sluicegate.streams.aggregation import completion
from sluicegate.streams.aggregation.completion import deadline_of
from sluicegate.streams.aggregation.durable import changelog, paging
from sluicegate.streams.aggregation.durable.entry import ChangelogEntry
from sluicegate.streams.aggregation.durable.paging import Paging
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import GroupState

Patch = pytest.MonkeyPatch


def past_not_restored(patch: Patch) -> None:
    """A restore forgets which results the groups had."""
    apply = changelog._apply

    def forgetful(groups: Groups, entry: ChangelogEntry) -> None:
        entry.past = {}
        apply(groups, entry)

    patch.setattr(changelog, "_apply", forgetful)


def past_not_compacted(patch: Patch) -> None:
    """Compaction drops which results the groups had."""

    def none(known: Mapping[bytes, Any], keys: Iterable[bytes]) -> dict[bytes, Any]:
        return {key: known[key] for key in keys if key in known} if not isinstance(keys, tuple) else {}

    patch.setattr(changelog, "_chosen", none)


def past_not_in_the_row(patch: Patch) -> None:
    """A group that was cold forgets which results it had."""
    taken = paging._past_of

    def forgotten(state: GroupState, width: int) -> tuple[None, float | None]:
        return None, taken(state, width)[1]

    patch.setattr(paging, "_past_of", forgotten)


def cancelled_deadline_stays(patch: Patch) -> None:
    """A record that cancels takes no deadline away."""
    give = Groups.give_deadline

    def keeps(self: Groups, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        return deadline < inf and give(self, key, state, deadline, now)

    patch.setattr(Groups, "give_deadline", keeps)


def first_deadline_stays(patch: Patch) -> None:
    """A later record does not move the deadline."""
    give = Groups.give_deadline

    def keeps(self: Groups, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        known = deadline_of(state) < inf
        return not known and give(self, key, state, deadline, now)

    patch.setattr(Groups, "give_deadline", keeps)


def deadline_not_asked(patch: Patch) -> None:
    """The deadlines of the data are kept, and none of them ends a group after a restore."""
    patch.setattr(completion, "deadline_of", lambda state: inf)


def evicted_before_they_end(patch: Patch) -> None:
    """Groups that end by a changed rule may be evicted before they have."""
    moved = Paging.moved

    def always(self: Paging, now: float) -> Any:
        self.suspended = False
        return moved(self, now)

    patch.setattr(Paging, "moved", always)
