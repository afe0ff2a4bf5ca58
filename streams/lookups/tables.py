"""Compacted topics as tables: every process keeps the newest row of each key in memory.

A table has no group, no claim and no store. It answers only after each partition of its topic was read up to the end
that it had when reading began. A worker claims no partition before all its tables answer.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from sluicegate.schemas.json import UNREADABLE, decode_any, encode
from sluicegate.schemas.json import document as decode
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import LookupKey, RowFields, TableFeed
from sluicegate.streams.errors import LookupFailed, SystemNotReady
from sluicegate.streams.observe.metrics import Meter

ROW_OVERHEAD = 240  # bytes of memory that CPython needs for a row, beside its key and fields
PAUSE, LONGEST_PAUSE = 2.0, 60.0  # seconds between two attempts to read a topic; doubled after each failure
SAY_EVERY = 60.0  # seconds between two log lines about invalid records
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
SLICE = 0.1  # seconds of one turn while a table is being read


class TopicTable:
    """The rows of one lookup. `bytes` is their approximate size in memory. A record of more than `largest` bytes is not
    a row."""

    def __init__(
        self, lookup: Lookup, opened: Callable[[str], TableFeed], clock: Callable[[], float], largest: int
    ) -> None:
        self.lookup, self._opened, self._clock, self._largest = lookup, opened, clock, largest
        self._log = structlog.get_logger().bind(lookup=lookup.name, topic=lookup.source)
        self._rows: dict[str, bytes] = {}
        self.bytes = self.undecodable = 0
        self._feed: TableFeed | None = None
        self._try_at = self._say_at = self._began = 0.0
        self._complete, self._full = False, False
        self._why, self._pause = "", PAUSE

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def waits_for(self) -> str:
        """The reason why the table does not answer; empty if it does."""
        if self._complete:
            return ""
        return self._why or f"lookup {self.lookup.name}: topic {self.lookup.source} is read, {len(self):,} rows so far"

    def follow(self) -> int:
        """Take the new records, without waiting. Returns their number."""
        if self._full or (self._feed is None and not self._begin()):
            return 0
        feed: TableFeed = self._feed  # type: ignore[assignment]  # `_begin` opened it
        try:
            records = feed.take()
        except SystemNotReady as error:
            self._lose(str(error))
            return 0
        for record in records:
            self._put(record)
        if len(self) > self.lookup.max_rows or self.bytes > self.lookup.max_table_bytes:
            rows, size = len(self), self.bytes
            self.close()
            self._clear()
            self._full = True
            self._why = (
                f"table-full: lookup {self.lookup.name} has more than {self.lookup.max_rows:,} rows, or more than "
                f"{self.lookup.max_table_bytes:,} bytes; raise max_rows or max_table_bytes, and restart"
            )
            self._log.error("table.full", rows=rows, bytes=size, error=self._why)
        elif not self._complete and feed.complete:
            self._complete, self._pause = True, PAUSE
            seconds = round(self._clock() - self._began, 3)
            self._log.info("table.ready", rows=len(self), bytes=self.bytes, seconds=seconds)
        return len(records)

    def look_up(self, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        """As `RowLookups.look_up`, from the newest records that this process has. Raises LookupFailed before the table
        is complete."""
        if not self._complete:
            raise LookupFailed(f"lookup-failed: {self.waits_for}")
        rows, names = self._rows, self.lookup.fields
        rows_of_keys = {key: row for key in keys if (row := rows.get(str(key))) is not None}
        return {key: dict(zip(names, decode_any(row), strict=True)) for key, row in rows_of_keys.items()}

    def lag(self) -> int:
        """The number of records in the topic that were not taken yet, as far as Kafka has reported it."""
        return 0 if self._feed is None else self._feed.lag()

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
        self._feed = None

    def _begin(self) -> bool:
        """Start reading the topic from its first record. Returns False if it cannot be read."""
        if (now := self._clock()) < self._try_at:
            return False
        try:
            self._feed = self._opened(self.lookup.source)
        except SystemNotReady as error:
            self._lose(str(error))
            return False
        self._began, self._why = now, ""
        return True

    def _lose(self, why: str) -> None:
        """The topic cannot be read further. The rows in memory may be wrong, so it is read again."""
        self.close()
        self._clear()
        if why not in self._why:
            self._log.warning("table.lost", error=why)
        self._why, self._try_at = f"lookup {self.lookup.name}: {why}", self._clock() + self._pause
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def _clear(self) -> None:
        self._rows, self.bytes, self._complete = {}, 0, False

    def _put(self, record: Record) -> None:
        try:
            key = (record.key() or b"").decode()
            if not key:
                raise ValueError("has no key")
            row = self._row(record.value())
        except (ValueError, *UNREADABLE) as error:
            return self._left_out(record, error)
        old = self._rows.pop(key, None)
        if old is not None:
            self.bytes -= _size(key, old)
        if row is not None:
            self._rows[key] = row
            self.bytes += _size(key, row)

    def _row(self, value: bytes | None) -> bytes | None:
        """The fields as a JSON array; None for a record that deletes its key. Other fields are not read. Raises
        ValueError, and the errors of decoders."""
        if value is None:
            return None
        if len(value) > self._largest:
            raise ValueError(f"{len(value)} bytes are more than max_record_bytes {self._largest}")
        try:
            members = _members(value)
        except msgspec.ValidationError:
            raise ValueError("is not a JSON object") from None
        return encode([decode(bytes(members[name])) if name in members else None for name in self.lookup.fields])

    def _left_out(self, record: Record, error: Exception) -> None:
        """Log a record that is not a row. The existing row stays."""
        self.undecodable += 1
        if (now := self._clock()) >= self._say_at:
            self._say_at = now + SAY_EVERY
            facts = {"partition": record.partition(), "offset": record.offset(), "so_far": self.undecodable}
            self._log.warning("table.not_a_row", error=f"{type(error).__name__}: {error}", **facts)


class TopicTables:
    """The tables of one worker, by the names of their lookups."""

    def __init__(
        self,
        lookups: Sequence[Lookup],
        opened: Callable[[str], TableFeed],
        clock: Callable[[], float],
        meter: Meter,
        largest: int,
    ) -> None:
        self._tables = {lookup.name: TopicTable(lookup, opened, clock, largest) for lookup in lookups}
        self._clock, self._meter = clock, meter
        self._undecodable = 0

    def look_up(self, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        """The rows from all records that this process has received. Raises LookupFailed."""
        table = self._tables[lookup.name]
        table.follow()
        return table.look_up(keys)

    def turn(self) -> None:
        """Take the new records. While a table is being loaded, this is the only work of the turn."""
        end = self._clock() + SLICE
        for table in self._tables.values():
            while table.follow() and table.waits_for and self._clock() < end:
                pass

    @property
    def waits_for(self) -> str:
        """The reason why no partition may be claimed yet; empty if each table answers."""
        return next((why for table in self._tables.values() if (why := table.waits_for)), "")

    @property
    def loading(self) -> bool:
        """Whether a table is being read for the first time."""
        return any(table.waits_for and table.lag() for table in self._tables.values())

    def measure(self) -> None:
        for name, table in self._tables.items():
            self._meter.set("table_rows", len(table), lookup=name)
            self._meter.set("table_bytes", table.bytes, lookup=name)
            self._meter.set("table_lag_records", table.lag(), lookup=name)
        total = sum(table.undecodable for table in self._tables.values())
        self._meter.count("table_records_undecodable", total - self._undecodable)
        self._undecodable = total

    def close(self) -> None:
        for table in self._tables.values():
            table.close()


def _size(key: str, row: bytes) -> int:
    return len(key) + len(row) + ROW_OVERHEAD
