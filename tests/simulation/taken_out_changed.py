"""What patches a protection of changed rules away, for `mutants.py`."""

import msgspec
import pytest

from sluicegate.streams.aggregation import groups
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.ownership import owner
from sluicegate.streams.ownership.owner import Owner

Patch = pytest.MonkeyPatch


def named_early(patch: Patch) -> None:
    """The first commit under a claim names the rule of the new file, whatever is open."""
    begin = Owner._begin

    def early(self: Owner) -> None:
        begin(self)
        assert self._source is not None
        self._source = msgspec.structs.replace(self._source, rule=self._setting.rule.fingerprint)

    patch.setattr(Owner, "_begin", early)


def idle_from_the_first(patch: Patch) -> None:
    """Groups that kept no time of their last record count from the first one."""
    patch.setattr(owner, "idle_since", lambda *_: 0.0)


def lowered_is_count(patch: Patch) -> None:
    patch.setattr(groups, "COUNT_LOWERED", "count")


def still_open(patch: Patch) -> None:
    """Groups that were ended by another file are not taken off the log."""
    fire = Groups.fire

    def kept(self: Groups, key: bytes, reason: str, now: float) -> None:
        fire(self, key, reason, now)
        if reason == "manual":
            self.touched.pop(key, None)

    patch.setattr(Groups, "fire", kept)


def reads_on(patch: Patch) -> None:
    """The partition is read while groups of another file are open."""
    end = Owner._end_groups

    def none(self: Owner, monotonic: float) -> object:
        if self.groups.rule is self._setting.rule:
            return end(self, monotonic)
        self.groups.rule = self._setting.rule
        return iter(())

    patch.setattr(Owner, "_end_groups", none)
