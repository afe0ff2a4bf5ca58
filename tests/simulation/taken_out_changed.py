"""What patches a protection of changed rules away, for `mutants.py`."""

import msgspec
import pytest

from sluicegate.streams.aggregation import groups
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.contracts.values import Claim, Partition, Source
from sluicegate.streams.ownership import generations
from sluicegate.streams.ownership.claiming import takeover
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.switching import Switch

Patch = pytest.MonkeyPatch


def older_not_named(patch: Patch) -> None:
    """The row does not name the groups of the earlier file."""
    begin = Takeover._begin

    def early(self: Takeover) -> None:
        begin(self)
        assert self.owner.source is not None
        self.owner.source = msgspec.structs.replace(self.owner.source, older=())

    patch.setattr(Takeover, "_begin", early)


def idle_from_the_first(patch: Patch) -> None:
    """Groups that kept no time of their last record count from the first one."""
    patch.setattr(takeover, "idle_since", lambda *_: 0.0)


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


def takes_them(patch: Patch) -> None:
    """Groups of another file go on under the new one."""

    def same(before: Source | None, setting: AgentRuntime, partition: Partition) -> Switch:
        return Switch() if before is None else Switch(before.older, None, before.generation)

    patch.setattr(takeover, "judged", same)


def undivided(patch: Patch) -> None:
    """Overlapping windows are of each rule that has a record of them."""
    patch.setattr(generations, "divide", lambda older, newest: None)


def begun_again(patch: Patch) -> None:
    """A record in an open window of an earlier rule begins the window again under the rule that runs."""
    patch.setattr(generations.Older, "has_all", lambda older, record: False)


def left_open(patch: Patch) -> None:
    """A record that touches an open session of an earlier rule belongs to the rule that runs."""
    patch.setattr(generations.Older, "is_open_for", lambda older, record: False)


def last_forgotten(patch: Patch) -> None:
    """The last window of a rule is found anew at each claim."""
    begin = generations.Generations.begin

    def anew(self: generations.Generations, claim: Claim, name: str) -> int:
        for part in self:
            part.known = msgspec.structs.replace(part.known, last=None)
        return begin(self, claim, name)

    patch.setattr(generations.Generations, "begin", anew)


def all_again(patch: Patch) -> None:
    """Records count again although a result has them."""
    patch.setattr(generations, "read_again", lambda groups, records, until: records)
