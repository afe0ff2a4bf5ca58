"""De-duplication by business key: drops records that a producer wrote twice, before they are processed.

The id is a header, a field of the message, or its key. A redelivered record needs no de-duplication: its offset is
below the committed one.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.schemas.codecs import as_json
from sluicegate.schemas.json import Field, decode_any, key_text, wanted
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.clauses import ClauseFailed, Lets
from sluicegate.streams.aggregation.events import Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.seen import LONGEST_ID, KnownIds
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import ConfigurationError

ReadId = Callable[[Record], bytes | None]
"""Reads the id of a record: None or empty if it has none. Raises if the id cannot be read."""


class IdRule:
    """The compiled `dedupe` of an agent. `valid` raises for a value that is not a message. `opaque`: the id is not in
    the value, and the agent may accept tombstones and values that cannot be decoded."""

    __slots__ = ("max_record_bytes", "opaque", "read", "setting", "valid")

    def __init__(self, agent: Agent, codec: Codec) -> None:
        """Raises ConfigurationError."""
        if agent.dedupe is None:
            raise ConfigurationError(f"agent {agent.name} has no dedupe")
        self.setting, self.max_record_bytes = agent.dedupe, agent.max_record_bytes
        self.opaque = agent.passes_values and agent.dedupe.by != "field"
        self.valid: Callable[[bytes], Any] = decode_any if codec.name == "json" else codec.decode
        name = self.setting.name or ""
        lets = {name.partition(".")[0]} & {definition.name for definition in agent.let}
        if self.setting.by == "field" and not codec.fields and not lets:
            raise ConfigurationError(
                f"agent {agent.name}: dedupe: format {agent.format} has no fields; use id: header:NAME or id: key"
            )
        if self.setting.by == "field" and lets:
            self.read: ReadId = _computed(name, Lets(agent.let, lets, codec, lets))
        else:
            self.read = {"key": _key, "header": _header(name)}.get(self.setting.by) or _field(name, codec)

    def seen(self) -> KnownIds:
        """An empty set of seen ids."""
        setting = self.setting
        return KnownIds(f"{setting.by}:{setting.name or ''}", setting.horizon, setting.max_ids)

    def identity(self, record: Record) -> bytes | None:
        """The record's id, or None if it has none. Raises ClauseFailed if the id cannot be computed, and the errors of
        decoders if it cannot be read."""
        try:
            id = self.read(record) or None
        except ClauseFailed:
            raise
        except Exception:
            if record.value() is not None and record.error() is None and not self._is_valid(record):
                raise
            return None
        return id if id is None or len(id) <= LONGEST_ID else sha256(id).digest()

    def refuses(self, record: Record) -> bool:
        """Whether the record must be refused because of its missing id. The aggregation reports any other error more
        precisely."""
        value = record.value()
        if self.setting.on_missing == "accept" or record.error() is not None:
            return False
        if self.opaque:
            return True
        return value is not None and self._is_valid(record) and len(value) <= self.max_record_bytes

    def _is_valid(self, record: Record) -> bool:
        """Whether the whole value can be decoded. If so, a missing id is the only error."""
        try:
            self.valid(record.value() or b"")
        except Exception:
            return False
        return True

    def refuse(self, groups: Groups, record: Record) -> None:
        by, name = self.setting.by, self.setting.name
        where = (
            "its key is missing or empty"
            if by == "key"
            else f"{by} {name} is missing{', null' if by == 'field' else ''} or empty"
        )
        groups.refuse(record, "dedupe", "no-id", f"the record has no id: {where}")


def _key(record: Record) -> bytes | None:
    return record.key()


def _header(name: str) -> ReadId:
    def read(record: Record) -> bytes | None:
        content = None
        for header, value in record.headers() or ():
            if header == name:
                content = value  # the last header of a name counts, as in Kafka's own clients
        return content

    return read


def _field(path: str, codec: Codec) -> ReadId:
    want = wanted([Field(path)])
    parse, text, [get] = want.of_last, as_json(codec, [path.partition(".")[0]]), want.getters
    parsed: Callable[[bytes], Any] = parse if codec.name == "json" else lambda value: parse(text(value))

    def read(record: Record) -> bytes | None:
        return key_text(get(parsed(record.value())))  # type: ignore[arg-type]

    return read


def _computed(path: str, lets: Lets) -> ReadId:
    want = wanted([Field(path)])
    parse, [get] = want.of_last, want.getters

    def read(record: Record) -> bytes | None:
        return key_text(get(parse(lets.added(record, record.value()))))  # type: ignore[arg-type]

    return read


class DuplicateFilter:
    """Drops the duplicates of one partition. `dropped` counts them until it is reset to 0."""

    __slots__ = ("_rule", "dropped", "seen")

    def __init__(self, rule: IdRule) -> None:
        self._rule, self.seen = rule, rule.seen()
        self.dropped = 0

    def runs(
        self, records: Sequence[Record], now: float, groups: Groups, inbox: Sequence[object] = ()
    ) -> Iterator[Sequence[Record]]:
        """Yield the new records in runs. Process each run before taking the next one.

        The id of a record counts as seen only if the record counts: not if it is refused (in `groups.events` or the
        `inbox`), and not if the file says to skip it. So a run ends before a repeated id, and before an id that the ids
        of the run may displace.
        """
        run: list[Record] = []
        ids: dict[bytes, Record] = {}
        seen, holds = self.seen, self.seen.holds
        for record in records:
            try:
                identity = self._rule.identity(record)
            except Exception as error:
                refuse(groups, record, error)
                continue
            refused = identity is None and self._rule.refuses(record)
            known = identity is not None and holds(identity, now)
            if refused or identity in ids or (known and seen.size + len(ids) > seen.most):
                yield from self._ended(run, ids, now, groups, inbox)
                run, ids, known = [], {}, identity is not None and holds(identity, now)
            if refused:
                self._rule.refuse(groups, record)
            elif known:
                self.dropped += 1
            else:
                run.append(record)
                if identity is not None:
                    ids[identity] = record
        yield from self._ended(run, ids, now, groups, inbox)

    def _ended(
        self, run: Sequence[Record], ids: dict[bytes, Record], now: float, groups: Groups, inbox: Sequence[object]
    ) -> Iterator[Sequence[Record]]:
        if run:
            events, items, out = len(groups.events), len(inbox), set[int]()
            groups.counts.left_out = out
            yield run
            groups.counts.left_out = None
            decided = [*groups.events[events:], *inbox[items:]]
            out |= {decision.record.offset() for decision in decided if isinstance(decision, Refused)}
            self.seen.note([name for name, record in ids.items() if not out or record.offset() not in out], now)

    def given_up(self, events: Sequence[object]) -> list[bytes]:
        """The ids of messages that a handler, or a missing lookup row, refused for good. They must be forgotten: a
        message that is written again must not be dropped."""
        late = (
            event for event in events if isinstance(event, Refused) and (event.stage == "handler" or event.looked_up)
        )
        refused = (event.record for event in late)
        return [identity for record in refused if (identity := self._rule.identity(record)) is not None]
