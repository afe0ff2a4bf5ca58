"""Protections of the real code, taken out one by one: each makes the judge of some seed find what the protection is for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import pytest

from connectors.memory import state
from connectors.memory.state import MemoryStore
from streams import failpoints
from streams.aggregation.changelog import Changelog
from streams.aggregation.groups import Groups
from streams.engine import relay
from streams.engine.claims import Claims
from streams.engine.crash import Marks
from streams.engine.owner import Owner
from tests.simulation import calm

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """`take_out` is a protection of streams.failpoints, or patches one away; `kind` needs it, `seed` shows it."""

    name: str
    kind: str
    take_out: str | Callable[[Patch], object]
    seed: int = 0

    def __str__(self) -> str:
        return self.name


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """The product without this protection. Where nothing is ever done, that is known after fewer rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calm, "MOST_ROUNDS", 400)
        if callable(mutant.take_out):
            mutant.take_out(patch)
        else:
            failpoints.arm({"SLUICEGATE_UNSAFE": mutant.take_out})
        try:
            yield
        finally:
            failpoints.arm({})


def token_alone(patch: Patch) -> None:
    patch.setattr(state, "_holds", lambda held, claim: held.token == claim.token)


def version_alone(patch: Patch) -> None:
    patch.setattr(state, "_holds", lambda held, claim: held.version == claim.version)


def offset_apart(patch: Patch) -> None:
    """The state is committed, the offset follows with the next commit."""
    following = state.following

    def late(claim: Any, changes: Any, at: float) -> Any:
        after = following(claim, changes, at)
        return msgspec.structs.replace(after, offset=max(claim.offset, 0)) if changes.entries else after

    patch.setattr(state, "following", late)


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

    def fewer(self: Any, blobs: Any, first: int, last: int, senders: Any, strict: bool = True) -> None:
        replay(self, list(blobs)[:-1], first, last, senders, False)

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
    report = relay.Relay._report

    def well(self: Any, shard: Any, number: int, outcome: str, text: str) -> None:
        report(self, shard, number, "delivered", text)

    patch.setattr(relay.Relay, "_report", well)


def not_again(patch: Patch) -> None:
    give_up = Claims._give_up

    def gives_up(self: Any, place: Any, owner: Any, error: Exception) -> None:
        give_up(self, place, owner, error)
        self._waiting.pop(place, None)

    patch.setattr(Claims, "_give_up", gives_up)


def careful_relay(patch: Patch) -> None:
    """After a failed delivery only the shards at hand begin anew."""
    again = relay.Relay._recover
    patch.setattr(relay.Relay, "_recover", lambda self, shards, outstanding, now: again(self, list(shards)[:1], outstanding, now))


def zombie_marks(patch: Patch) -> None:
    """Every claim found in a crash mark counts as three deaths."""
    found = Marks.found

    def counted(self: Any, trying: Any, offset: int) -> None:
        found(self, trying, offset)
        self.poisoned = self.poisoned or (trying is not None and trying.offset == offset)

    patch.setattr(Marks, "found", counted)


def not_void(patch: Patch) -> None:
    patch.setattr(Claims, "misplaced", lambda self, owner, record: False)


MUTANTS = (
    Mutant("no-compare-and-set", "count", "fence"),
    Mutant("token-without-version", "count", token_alone, 10),
    Mutant("version-without-token", "count", version_alone),
    Mutant("published-before-the-commit", "timed", "output-commit"),
    Mutant("offset-after-state", "count", offset_apart),
    Mutant("offset-without-outbox", "count", offset_first),
    Mutant("memory-kept-after-unknown-result", "count", "keep-state"),
    Mutant("no-seek-after-a-claim", "count", "seek"),
    Mutant("stale-batch", "count", "stale-batch"),
    Mutant("first-record-not-looked-at", "count", not_void, 3),
    Mutant("goes-on-past-a-failure", "count", "relay-order"),
    Mutant("failed-row-forgotten", "count", failed_forgotten),
    Mutant("other-shards-not-sent-again", "count", careful_relay, 2),
    Mutant("rows-purged-at-claim", "count", purged),
    Mutant("restore-skips-an-entry", "count", entry_skipped),
    Mutant("compaction-without-old-groups", "count", forgets_too_much),
    Mutant("no-deadlines-after-a-restore", "timed", lambda patch: patch.setattr(Groups, "rearm", lambda self: None)),
    Mutant("timers-early", "timed", timers_early),
    Mutant("never-claims-again", "count", not_again, 2),
    Mutant("no-crash-marks", "poison", "crash-marks"),
    Mutant("claims-counted-as-crashes", "count", zombie_marks, 2),
    Mutant("receiver-remembers-nothing", "chain", "receive"),
    Mutant("no-dedupe", "dedupe", "dedupe"),
    Mutant("session-apart", "session", "session"),
    Mutant("sealed-forgotten", "slow", "sealed"),
    Mutant("gaps-not-checked", "count", "claim-checks", 91),
)
