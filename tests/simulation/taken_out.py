"""What patches a protection of the real code away, for `mutants.py`."""

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest

from sluicegate.connectors.memory import state
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.outbox import rows, sender
from sluicegate.streams.ownership import checks
from sluicegate.streams.ownership.claiming.fetches import Fetches
from sluicegate.streams.ownership.claims import Claims
from sluicegate.streams.ownership.crash import CrashMarks
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.reading.receive import ReceivedShards
from tests.mutation.twins import edits_of, take_out

Patch = pytest.MonkeyPatch


def token_alone(patch: Patch) -> None:
    patch.setattr(state, "_holds", lambda owned, claim: owned.token == claim.token)


def version_alone(patch: Patch) -> None:
    patch.setattr(state, "_holds", lambda owned, claim: owned.version == claim.version)


def offset_apart(patch: Patch) -> None:
    """The state is committed, the offset follows with the next commit."""
    following = state.next_claim

    def late(claim: Any, changes: Any, at: float) -> Any:
        after = following(claim, changes, at)
        return msgspec.structs.replace(after, offset=max(claim.offset, 0)) if changes.entries else after

    patch.setattr(state, "next_claim", late)


def offset_first(patch: Patch) -> None:
    """The offset is committed, and a tenth of the state with it is not."""
    append = state._append

    def less(row: Any, changes: Any, claim: Any, after: Any) -> None:
        append(row, msgspec.structs.replace(changes, outbox=()) if after.version % 10 == 0 else changes, claim, after)

    patch.setattr(state, "_append", less)


def _claimed(patch: Patch, change: Callable[[Any], None]) -> None:
    claim = MemoryStore.claim

    def claims(self: Any, partition: Any, token: str, member: str) -> Any:
        claim(self, partition, token, member)
        change(self._rows[partition])
        return self._rows[partition].claim

    patch.setattr(MemoryStore, "claim", claims)


def purged(patch: Patch) -> None:
    _claimed(patch, lambda row: row.unsent.clear())


def entry_skipped(patch: Patch) -> None:
    """A restore passes over the last entry."""
    replay = Changelog.replay

    def fewer(self: Any, blobs: Any, first: int, last: int, senders: Any) -> None:
        replay(self, list(blobs)[:-1], first, last, senders)

    take_out(patch, edits_of("restore-numbers"))
    patch.setattr(Changelog, "replay", fewer)


def forgets_too_much(patch: Patch) -> None:
    refresh = Changelog._refresh

    def forgetful(self: Any, entry: Any) -> bool:
        before = dict(entry.states)
        done = refresh(self, entry)
        entry.states = before
        return done

    patch.setattr(Changelog, "_refresh", forgetful)


def timers_early(patch: Patch) -> None:
    now = Owner.now
    patch.setattr(Owner, "now", lambda self, monotonic: now(self, monotonic) + 0.5)
    expire = Groups.expire
    patch.setattr(Groups, "expire", lambda self, at, most: expire(self, at + 0.7, most))


def failed_forgotten(patch: Patch) -> None:
    patch.setattr(sender.Chunk, "refused", lambda self, number, outcome, text: self.delivered([number]))


def refused_forgotten(patch: Patch) -> None:
    refused = sender.Chunk.refused

    def well(self: Any, number: int, outcome: str, text: str) -> None:
        if outcome == "rejected":
            self.delivered([number])
        else:
            refused(self, number, outcome, text)

    patch.setattr(sender.Chunk, "refused", well)


def not_again(patch: Patch) -> None:
    give_up = Claims._give_up

    def gives_up(self: Any, place: Any, owner: Any, error: Exception) -> None:
        give_up(self, place, owner, error)
        self.retries.waiting.pop(place, None)

    patch.setattr(Claims, "_give_up", gives_up)


def careful_relay(patch: Patch) -> None:
    """After a failed delivery only the shards at hand begin anew."""
    again = sender.Sender._recover
    patch.setattr(sender.Sender, "_recover", lambda self, sources, *parts: again(self, list(sources)[:1], *parts))


def zombie_marks(patch: Patch) -> None:
    """Every claim found in a crash mark counts as three deaths."""
    restore = CrashMarks.restore

    def counted(self: Any, trying: Any, offset: int) -> None:
        restore(self, trying, offset)
        self.poisoned = self.poisoned or (trying is not None and trying.offset == offset)

    patch.setattr(CrashMarks, "restore", counted)


def not_void(patch: Patch) -> None:
    patch.setattr(Fetches, "seek_again_if_gap", lambda self, owner, record: False)


def numbers_of_what_is_left(patch: Patch) -> None:
    """The next row gets the number behind the highest unsent one."""
    write, committed = MemoryStore._write, Owner.committed

    def forgets(self: Any, row: Any, claim: Any, changes: Any) -> Any:
        row.claim = msgspec.structs.replace(write(self, row, claim, changes), number=max(row.unsent, default=0))
        return row.claim

    def goes_on(self: Any, claim: Any, ready: Any, monotonic: float) -> Any:
        events = committed(self, claim, ready, monotonic)
        self.rows.number = claim.number
        return events

    patch.setattr(MemoryStore, "_write", forgets)
    patch.setattr(Owner, "committed", goes_on)


def rewound_by_version(patch: Patch) -> None:
    """A store that went back is known by its version alone, and clearing a crash mark raises it."""
    clear_crash_mark = MemoryStore.clear_crash_mark

    def raised(self: Any, partition: Any, token: str, processes: Any) -> None:
        before = self._rows[partition].claim
        clear_crash_mark(self, partition, token, processes)
        row = self._rows[partition]
        if row.claim is not before:
            row.claim = msgspec.structs.replace(row.claim, token=before.token, version=before.version + 1)

    patch.setattr(MemoryStore, "clear_crash_mark", raised)
    patch.setattr(checks, "rewound", lambda claim, known: checks.seen(claim)[:2] < known[:2])


def watermark(patch: Patch) -> None:
    """A receiver takes only what is above the highest number of its shard."""
    repeat = ReceivedShards.note

    def below(self: Any, shard: str, number: int, now: float) -> bool:
        known = self.shards.get(shard)
        return (known is not None and number <= known.highest) or repeat(self, shard, number, now)

    patch.setattr(ReceivedShards, "note", below)


def no_lineage(patch: Patch) -> None:
    named = rows.shard_name
    patch.setattr(rows, "shard_name", lambda partition, topic, lineage: named(partition, topic, ""))


class Whatever(dict[Any, Any]):
    """Says of each record that it is the one that came before."""

    def get(self, place: Any, default: Any = None) -> Any:
        return ANY if place in self else default


def one_more_seek(patch: Patch) -> None:
    """Whatever comes after the second seek is taken for the first record."""
    made = Claims.__init__

    def claims(self: Any, *parts: Any) -> None:
        made(self, *parts)
        self.fetches.again = Whatever()

    patch.setattr(Claims, "__init__", claims)


def waits_for_a_clock(patch: Patch) -> None:
    """Groups that were opened while the store's clock was ahead wait for that time."""
    patch.setattr(Groups, "set_back", lambda self, now: None)
