"""Writes a rebuilt state into the store, under a claim, in commits of bounded size.

Until the last commit the changelog begins with a mark that no worker reads past, and a second run starts over. Rows
that were never sent are written too; the next owner of the partition sends them.
"""

from collections.abc import Iterator

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.durable.changelog import ENTRY_LIMIT
from sluicegate.streams.aggregation.durable.entry import REBUILDING, Amendment, ChangelogEntry, halves, packed
from sluicegate.streams.aggregation.layout import BYTES
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Changes, Claim, OutboxRow, PartitionView, Source
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person, appended
from sluicegate.streams.operations.groups.cold_groups import remove_all
from sluicegate.streams.operations.groups.contents import place_of
from sluicegate.streams.operations.rebuilding.rebuild import Rebuilt
from sluicegate.streams.outbox.rows import Rows

WHAT = "replay --rebuild"
COMMIT_BYTES = 1024 * 1024  # about, of state
COMMIT_ROWS = 500  # outputs may have a megabyte each, as in a worker's commits


def lost(view: PartitionView | None) -> bool:
    """Whether the store holds nothing of the partition, or an unfinished rebuild."""
    return view is None or view.claim.offset < 0 or (bool(view.entries) and view.entries[0] == REBUILDING)


def write(store: Store, built: Rebuilt, rows: Rows, number: int, source: Source, person: Person) -> Claim:
    """Writes the state. `number` is the highest known number of an outbox row. Raises Fenced (another process claimed
    meanwhile), PersistenceError, and ConfigurationError when the partition has a state by now."""
    claim = store.claim(built.partition, person.token, NOBODY)
    if claim.offset >= 0 and not lost(store.read(built.partition)):
        raise ConfigurationError(f"{place_of(built.partition)} has a state meanwhile; nothing was changed there")
    claim = _marked(store, claim)
    first = claim.last + 1
    for entry in _entries(built, claim.store_time):
        blobs = _blobs(entry, claim.last + 1, bool(built.groups.rule.plan.bags))
        claim = _half_way(store.commit(claim, Changes(-1, entries=blobs)))
    rows.begin(claim.token, max(claim.number, number), source.topic_id)
    made = rows.make(list(built.decided.values()))
    for start in range(0, len(made), COMMIT_ROWS):
        claim = _half_way(store.commit(claim, Changes(-1, outbox=made[start : start + COMMIT_ROWS])))
    claim = _counted_on(store, claim, number)
    note = Amendment(claim.store_time, person.who, WHAT, f"{place_of(built.partition)} to {built.offset}", person.why)
    return appended(store, claim, Changes(built.offset, built.epoch, keep_from=first, source=source), amended=[note])


def _counted_on(store: Store, claim: Claim, number: int) -> Claim:
    """The claim with rows numbered from `number` on, above those that were sent before: a row of this number, which the
    next commit removes. Else a shadow would not tell the earlier results from results that came after its view."""
    if claim.number >= number:
        return claim
    row = OutboxRow(number, claim.token, "", claim.partition.topic, 0, None, None, ())
    claim = _half_way(store.commit(claim, Changes(-1, outbox=[row])))
    return store.commit(claim, Changes(-1, dispatched=[number]))


def _half_way(claim: Claim) -> Claim:
    failpoints.hit("replay-half-way")
    return claim


def _marked(store: Store, claim: Claim) -> Claim:
    """Writes the mark, and deletes the entries of an earlier rebuild."""
    number = claim.last + 1
    claim = store.commit(claim, Changes(-1, entries=[REBUILDING], keep_from=number))
    while rows := store.pending(claim.partition, 0, COMMIT_ROWS):
        claim = store.commit(claim, Changes(-1, dispatched=[row.number for row in rows]))
    return remove_all(store, claim)


def _entries(built: Rebuilt, at: float) -> Iterator[ChangelogEntry]:
    """The whole state, in entries of about COMMIT_BYTES."""
    groups, seen = built.groups, built.seen
    part, size = ChangelogEntry(0, at, {}, {}, {}, {}, built.senders.whole(at)), 0
    for key, state in groups.states.items():
        part.states[key] = state
        if key in groups.closed:
            part.closed[key] = groups.closed[key]
        if key in groups.early.past:
            part.past[key] = groups.early.past[key]
        if key in groups.bags:
            part.whole[key] = groups.rule.plan.items(groups.bags[key])
        size += 64 + len(key) + int(state[BYTES]) + sum(len(state[fold.slot]) for fold in groups.rule.plan.folds)
        if size >= COMMIT_BYTES:
            yield part
            part, size = ChangelogEntry(0, at, {}, {}, {}, {}, {}), 0
    yield part
    if (clock := groups.clock(whole=True)) is not None:
        yield ChangelogEntry(0, at, {}, {}, {}, {}, {}, clock=clock, origins=groups.origins(whole=True))
    queue = seen.remembered() if seen else None
    while seen and queue:
        yield ChangelogEntry(0, at, {}, {}, {}, {}, {}, seen.slice(queue, COMMIT_BYTES, at), seen.source)


def _blobs(entry: ChangelogEntry, number: int, compress: bool) -> list[bytes]:
    """The entry in blobs of at most ENTRY_LIMIT bytes, numbered from `number` on."""
    blobs: list[bytes] = []
    waiting = [entry]
    while waiting:
        part = waiting.pop()
        part.number = number + len(blobs)
        blob = packed(part, compress)
        if len(blob) <= ENTRY_LIMIT:
            blobs.append(blob)
        else:
            waiting += reversed(halves(part))
    return blobs
