"""Protections of the real code, taken out one by one: each makes the judge of some seed find what the protection is for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import ANY

import msgspec
import pytest

from connectors.memory import state
from connectors.memory.state import MemoryStore
from streams import failpoints
from streams.aggregation.changelog import Changelog
from streams.aggregation.groups import Groups
from streams.engine import checks, relay
from streams.engine.claims import Claims
from streams.engine.crash import Marks
from streams.engine.owner import Owner
from tests.simulation import calm
from tests.simulation.apps import KINDS
from tests.simulation.plan import Fault, Plan, plan

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """`take_out` is a protection of streams.failpoints, or patches one away; `kind` needs it, `seed` shows it, where delivery reports are
    `slow` all the time."""

    name: str
    kind: str
    take_out: str | Callable[[Patch], object]
    seed: int = 0
    slow: bool = False

    @property
    def plan(self) -> Plan:
        chosen = plan(self.seed, kind=self.kind)
        reports = [Fault(step, "slow-reports", number, "", 40) for step in range(5, 380, 20) for number in range(6)] if self.slow else []
        return chosen._replace(faults=tuple(sorted([*chosen.faults, *reports])))

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


def refused_forgotten(patch: Patch) -> None:
    report = relay.Relay._report

    def well(self: Any, shard: Any, number: int, outcome: str, text: str) -> None:
        report(self, shard, number, "delivered" if outcome == "rejected" else outcome, text)

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


def numbers_of_what_is_left(patch: Patch) -> None:
    """The next row gets the number behind the highest unsent one."""
    write, committed = MemoryStore._write, Owner.committed

    def forgets(self: Any, row: Any, claim: Any, changes: Any) -> Any:
        row.claim = msgspec.structs.replace(write(self, row, claim, changes), number=max(row.unsent, default=0))
        return row.claim

    def goes_on(self: Any, claim: Any, ready: Any, monotonic: float) -> Any:
        events = committed(self, claim, ready, monotonic)
        self._rows.number = claim.number
        return events

    patch.setattr(MemoryStore, "_write", forgets)
    patch.setattr(Owner, "committed", goes_on)


def rewound_by_version(patch: Patch) -> None:
    """A store that went back is known by its version alone, and acquittals raise that."""
    acquit = MemoryStore.acquit

    def raised(self: Any, partition: Any, token: str, processes: Any) -> None:
        before = self._rows[partition].claim
        acquit(self, partition, token, processes)
        row = self._rows[partition]
        if row.claim is not before:
            row.claim = msgspec.structs.replace(row.claim, token=before.token, version=before.version + 1)

    patch.setattr(MemoryStore, "acquit", raised)
    patch.setattr(checks, "rewound", lambda claim, known: checks.seen(claim)[:2] < known[:2])


class Whatever(dict[Any, Any]):
    """Says of each record that it is the one that came before."""

    def get(self, place: Any, default: Any = None) -> Any:
        return ANY if place in self else default


def one_more_seek(patch: Patch) -> None:
    """Whatever comes after the second seek is taken for the first record."""
    made = Claims.__init__

    def claims(self: Any, *parts: Any) -> None:
        made(self, *parts)
        self._again = Whatever()

    patch.setattr(Claims, "__init__", claims)


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
    Mutant("goes-on-past-a-failure", "count", "relay-order", 2),
    Mutant("acknowledged-up-to-the-highest", "message", "exact-acks", 14, slow=True),
    Mutant("numbers-of-what-is-left", "count", numbers_of_what_is_left),
    Mutant("failed-row-forgotten", "count", failed_forgotten),
    Mutant("refused-row-forgotten", "refused", refused_forgotten),
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
    Mutant("rewound-by-version", KINDS[942646 % len(KINDS)], rewound_by_version, 942646),
    Mutant("taken-after-one-more-seek", KINDS[942321 % len(KINDS)], one_more_seek, 942321),
)
