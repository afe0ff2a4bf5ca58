"""Reads the cold groups of a partition from the store (sluicegate.streams.aggregation.durable.paging)."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf

from sluicegate.streams.aggregation.durable.paging import Paging, ends_of, unknown
from sluicegate.streams.aggregation.events_read import one_as_read
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import ColdGroups
from sluicegate.streams.contracts.values import ColdGroup, Partition
from sluicegate.streams.errors import ChangelogIncomplete
from sluicegate.streams.ownership.beginning import fired
from sluicegate.streams.ownership.store_clock import BACK

PAGE, PAGE_OF_BAGS = 5_000, 500  # groups that one commit of a take-over reads, without bags and with them
ASKED = 10_000  # names of groups for which the store is asked at once, beyond those of one record
DUE = 1_000  # cold groups that one expiry reads


class ColdReads:
    """The cold groups of `partition` in the store. `still_ours` raises Fenced after a later claim: then the rows may
    belong to another rule. `_ahead` are the pages of rows whose deadlines a clock that was ahead may have computed. All
    methods raise PersistenceError, ChangelogIncomplete and Fenced."""

    def __init__(
        self, store: ColdGroups, partition: Partition, groups: Groups, paging: Paging, still_ours: Callable[[], None]
    ) -> None:
        self._store, self._partition, self._groups, self.paging = store, partition, groups, paging
        self._still_ours = still_ours
        self._ahead: Iterator[Sequence[ColdGroup]] | None = None

    @property
    def gone(self) -> Collection[bytes]:
        return self.paging.gone

    @property
    def most(self) -> int:
        return DUE

    def rows(self, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        return self._store.cold(self._partition, keys) if keys else []

    def due(self, until: float, limit: int) -> Sequence[ColdGroup]:
        return self._store.due(self._partition, until, limit)

    def before(self, key: bytes, limit: int) -> Sequence[ColdGroup]:
        return self._store.before(self._partition, key, limit)

    def page(self, limit: int, after: bytes | None = None) -> Sequence[ColdGroup]:
        return self._store.keys(self._partition, after, limit)

    def look_up(self, records: Sequence[Record], now: float) -> Iterator[Sequence[Record]]:
        """Yield the records in runs, each after its cold groups became hot and its keys without a cold group are known.
        Accept a run before the next one is taken."""
        while self.paging.count:
            names, many = names_of(self._groups, records)
            self._ask(names, many, now)
            if many == len(records):
                yield records
                return
            yield records[:many]
            records = records[many:]
        self._groups.cold.absent = None
        yield records

    def _ask(self, names: set[bytes], records: int, now: float) -> None:
        """`names` are of the groups that so many records may open or change."""
        groups, cold = self._groups, self._groups.cold
        keys = unknown(groups, names)
        asked = cold.to_ask(keys)
        self._warm(self.rows(asked))
        cold.answered(asked)
        most = cold.needs(records, len(keys))
        crowd = groups.number + cold.count - cold.waiting() + most - groups.rule.aggregation.max_groups
        if most and crowd > 0:
            self._make_room(min(crowd, most))
        groups.behind = groups.behind or min(groups.next_due(), self._deadline()) <= now

    def _make_room(self, most: int) -> None:
        """Make up to `most` groups hot that may have to fire to make room."""
        hot = list[bytes]()
        for read in self._groups.cold.first(self):
            if len(hot) < most:
                hot += self._first(most - len(hot), read)
        self._groups.put_first(hot)

    def _first(self, most: int, read: Callable[[int], Sequence[ColdGroup]]) -> list[bytes]:
        """Make the first cold groups hot, up to `most`. `read` returns the first rows, also those of hot groups. The
        next commit deletes the rows of groups that are hot, so later calls do not read them again."""
        groups, hot, limit = self._groups, list[bytes](), most
        while True:
            rows = read(limit)
            cold = [row for row in rows if groups.cold.is_cold(row.key, self.paging.gone)]
            hot += self._warm(cold[: most - len(hot)])
            self.paging.remove((row for row in rows if row.key in groups.states), groups)
            if len(hot) >= most or len(rows) < limit:
                return hot
            limit *= 2

    def set_back(self, now: float) -> None:
        """The owner's time is `now` because the clock was ahead. If rows were written by that clock, the next expiries
        compute the deadlines of all rows again, a page in each."""
        if self.paging.count and self.paging.at > now + BACK:
            self._ahead, self.paging.nearest = self._pages(self._groups), -inf

    def _compute_again(self, pages: Iterator[Sequence[ColdGroup]], now: float) -> bool:
        """Make a page of rows hot, with times that are not after `now`. Returns False after the last page. Until then
        `at` stays, so a later claim begins anew."""
        rows = next(pages, None)
        if rows is None:
            self._ahead, self.paging.at, self.paging.changed = None, now, True
            return False
        self._warm(rows)
        self._groups.set_back(now)
        return True

    def expire(self, now: float) -> int:
        """End the groups that have timed out, make the other due groups and those of closed windows hot, and find the
        next deadline. The next commit deletes the due rows, also those of hot groups. So they are not read again.
        Returns the number of groups that ended."""
        paging, cold = self.paging, self._groups.cold
        if cold.closing():
            with self._ours():
                for rows in cold.close(self):
                    self._warm(rows)
        if paging.nearest > now or not self._groups.obeys_clock():
            return 0
        if self._ahead is not None and self._compute_again(self._ahead, now):
            return 0
        due, before = cold.due(self, now), cold.count
        if cold.times_out:
            with self._ours():
                others, looked = paging.time_out(due.rows, self._groups, now)
            if looked < len(due.rows):  # the others wait for the next expiry
                due = due._replace(passed=due.passed[:looked], nearest=due.rows[looked].due or 0.0)
            due = due._replace(rows=others)
        ended = before - cold.count
        self._warm(due.rows)
        paging.remove(due.passed, self._groups, due.by_due)
        paging.nearest = due.nearest
        return ended

    def next_due(self) -> float:
        """The nearest deadline of a cold group that can end before the next commit, on the owner's clock. Infinity if
        that commit has enough of them: while a handler's next attempt is waited for, there is none. Immediately if a
        closed window has cold groups."""
        if self._groups.cold.closing():
            return -inf
        return inf if self.paging.full(DUE) else self._deadline()

    def behind(self, now: float) -> bool:
        """Whether more cold groups are due, or a closed window has any."""
        return self._groups.cold.closing() or self._deadline() <= now

    def _deadline(self) -> float:
        """The nearest deadline of a row on the owner's clock."""
        return self.paging.nearest if self._groups.obeys_clock() else inf

    def warm_requested(self) -> None:
        """After a restore: make the groups hot that an operator wants to fire."""
        groups = self._groups
        if self.paging.count and (names := unknown(groups, groups.asked)):
            self._warm(self.rows([row for name in names for row in groups.cold.rows_of(name)]))

    def warm_all(self, groups: Groups) -> Iterator[None]:
        """Make all cold groups hot, in `groups`, and delete all rows. Yields after each page, for its commit."""
        for rows in self._pages(groups):
            self._warm(rows, groups)
            self.paging.remove(rows, groups)
            yield
        if self.paging.count:
            self._still_ours()
            raise ChangelogIncomplete(f"{self.paging.count} rows of cold groups are missing in the store")
        if self.paging.has_rows:
            self.paging.emptied()
            yield

    def _pages(self, groups: Groups) -> Iterator[Sequence[ColdGroup]]:
        after: bytes | None = None
        most = PAGE_OF_BAGS if groups.rule.plan.bags else PAGE
        while rows := self._store.keys(self._partition, after, most):
            after = rows[-1].key
            yield rows

    def keeping_hot(self, endings: Iterator[None]) -> Iterator[None]:
        """End groups after a claim, in the steps of `endings`. Commits evict no group until the last step: the next
        claim would overlook a group that is evicted before it ends."""
        self.paging.suspended = True
        yield from endings
        self.paging.suspended = False

    def judge(self, now: float) -> Iterator[None]:
        """Before the first record: end the groups that end under the current rule. Compute the deadlines of the others
        again if they were computed under another rule, or by a clock that was ahead. Yields after each slice, for its
        commit."""
        groups, paging = self._groups, self.paging
        back, ends = paging.at > now + BACK, ends_of(groups)
        if paging.count and (back or paging.ends != ends):
            # a claim that ends before the last page leaves deadlines of two rules: the next one computes all again
            paging.ends, paging.changed = (), True
            for rows in self._pages(groups):
                keys = self._warm(rows)
                if back:
                    groups.set_back(now)
                yield from self.keeping_hot(fired(groups, groups.complete_by_now(keys), now))
                yield
            paging.at, paging.changed = now, True
        paging.ends = ends_of(groups)

    def _warm(self, rows: Sequence[ColdGroup], groups: Groups | None = None) -> list[bytes]:
        with self._ours():
            return self.paging.warm(rows, self._groups if groups is None else groups)

    @contextmanager
    def _ours(self) -> Iterator[None]:
        """After a later claim the rows may be missing: raise Fenced then."""
        try:
            yield
        except ChangelogIncomplete:
            self._still_ours()
            raise


def names_of(groups: Groups, records: Sequence[Record]) -> tuple[set[bytes], int]:
    """The names of the groups that the first of these records may open or change, until there are ASKED names, and the
    number of these records. A record whose key or time cannot be read is left out: Groups.open fails for a name that
    was not looked up."""
    rule, names, many = groups.rule, set[bytes](), 0
    if rule.key_of is None and rule.aggregation.window is None:
        return {key for record in records if (key := record.key()) is not None}, len(records)
    groups.cold.begin()
    for many, record in enumerate(records, 1):
        if len(names) >= ASKED:
            return names, many - 1
        with suppress(Exception):  # `accept` refuses the record, or it is read again
            record = one_as_read(rule, record)
            read = None if rule.key_of is None and rule.time_of is None else rule.reader.read(record)
            key = record.key() if rule.key_of is None else rule.key_of(read)
            if key is not None:
                names.update(groups.cold.of_record(record, key, read))
                continue
        with suppress(Exception):
            groups.cold.pass_over(record)
    return names, many
