"""Judges the decisions of a rule about one partition: results, dead letters and open groups against the published
ones."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from sluicegate.schemas.json import decode_any, encode
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Event, Fire, Refused, Sent, Unhandled, timed_out
from sluicegate.streams.aggregation.results import Results, document, results
from sluicegate.streams.contracts.headers import by_name
from sluicegate.streams.contracts.ids import dead_ids, fire_ids, in_order
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber, OutboxRow
from sluicegate.streams.outbox.history import is_letter, is_silent, with_history
from sluicegate.streams.outbox.rows import AnyPartition, Rows
from sluicegate.streams.shadow.published import Published, PublishedOutput, PublishedResult, published
from sluicegate.streams.shadow.verdicts import Example, Extent, Figures, Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness

GroupHandler = Callable[[Fire, str], Sequence[Event]]
"""Calls the handler of an agent for a completed group under an id. Returns its messages, or the dead letters of its
failures."""
OPEN = "open"
"""The reason of a group that did not end."""


class OpenExtent(NamedTuple):
    """An open group: its records and its computed fields."""

    extent: Extent
    values: Mapping[str, Any]


class KnownRows(NamedTuple):
    """The rows in a published result, by the name of their lookup. `missing`: a row did not exist, and the result is a
    dead letter."""

    fields: Mapping[str, Any]
    missing: bool = False


def decided(agent: Agent, clauses: Results | None, fire: Fire, rows: KnownRows | None = None) -> Sequence[Event]:
    """The events of a completed group under a rule: a dead letter if it timed out and `on_timeout` asks for one, or
    else its result after `having`, the routes and `select`. `rows` are the looked-up rows."""
    if is_letter(agent, fire):
        return (timed_out(fire),)
    if rows is not None and rows.missing:
        return (Unhandled(fire, "", 1, "lookup-missing", stage="lookup"),)
    enriched = None if rows is None else document(fire) | {**rows.fields}
    return (fire,) if clauses is None else tuple(clauses.events(fire, Counter(), enriched))


def clauses_of(agent: Agent) -> Results | None:
    """The compiled clauses, as a worker compiles them."""
    return Results(agent) if agent.lookups and agent.handler is None else results(agent)


def known_rows(agent: Agent, within: Published, live: PublishedResult | None) -> KnownRows | None:
    """The rows of a published result; None: they are unknown."""
    names = [lookup.name for lookup in agent.lookups]
    if live is None:
        return None
    if any(output.dead[:2] == (b"lookup", b"lookup-missing") for output in live.outputs.values()):
        return KnownRows({}, missing=True)
    content = within.document(live)
    return KnownRows({name: content[name] for name in names}) if all(name in content for name in names) else None


class ShadowJudge:
    """Compares the decisions of `agent` with the published outputs in `witness`. `only` is the one key to judge; None:
    all keys. With `handle`, the handler's messages to the topic under `to` are compared."""

    def __init__(
        self, agent: Agent, codecs: Codecs, witness: Witness, only: bytes | None, handle: GroupHandler | None = None
    ) -> None:
        self.verdicts = Shadowed()
        published, place = witness.published, (witness.published.partition, witness.topic_id)
        self._partition, self._only, self._letters_from = published.partition, only, witness.letters_from
        self._live, self._letters = dict(published.results), dict(published.letters)
        self._agent, self._results = agent, clauses_of(agent)
        self._rows = Rows(published.partition, agent, codecs.writes, AnyPartition(), codecs.most)
        self._rows.begin("", 0, witness.topic_id)
        self._fire_id, self._dead_id = fire_ids(*place), dead_ids(*place)
        self._handle, self._sent = handle, dict(published.sent)
        self._published, self._chooses = published, bool(agent.having or any(to.where for to in agent.outputs))
        self._compared = {agent.history, agent.dead_letters, *(to.topic for to in agent.outputs)}

    def _judges(self, key: bytes | None) -> bool:
        return self._only is None or key == self._only

    def result(self, fire: Fire, certain: bool) -> None:
        """Judges a group that the rule ends. Raises ExpressionStopped."""
        if not self._judges(fire.key):
            return
        live = self._live.get(fire.number)
        if live is not None and live.opened is not None:
            fire = replace(fire, opened=live.opened, closed=fire.closed if live.closed is None else live.closed)
        looked_up = known_rows(self._agent, self._published, live) if self._agent.lookups else None
        if self._agent.lookups and looked_up is None and self._agent.handler is None:
            certain = certain and live is None and not self._chooses  # else the row decides what happens to the result
        rows = self._rows_of(fire, looked_up)
        self.verdicts.given += bool(rows)
        if not self.verdicts.comparable:
            return
        if not rows and certain:  # a published output is then `extra`
            self.verdicts.left_out += live is None
            return
        self._live.pop(fire.number, None)
        self.verdicts.published += live is not None
        new = Extent(fire.first, fire.last, fire.count, fire.reason)
        differs = () if live is None or not certain else tuple(self._differing(fire, live, rows))
        verdict = _verdict(live is not None, differs) if certain else "uncertain"
        self._count(self.verdicts.results, verdict, fire.key, _extent(live), new, differs, fire.number)

    def _rows_of(self, fire: Fire, looked_up: KnownRows | None) -> list[OutboxRow]:
        if self._agent.lookups and looked_up is None:
            looked_up = KnownRows({lookup.name: None for lookup in self._agent.lookups})
        events = () if is_silent(self._agent, fire) else decided(self._agent, self._results, fire, looked_up)
        sent = [] if self._handle is None else list(self._handled(self._handle, events))
        return self._rows.make([*sent, *with_history(self._agent, fire, events)])

    def _handled(self, handle: GroupHandler, events: Sequence[Event]) -> Iterator[Event]:
        """The messages of the handler for these completed groups, without those to topics that were not read."""
        for fire in events:
            for event in handle(fire, self._fire_id(fire.number)) if isinstance(fire, Fire) else ():
                if not isinstance(event, Sent) or event.topic in self._compared:
                    yield event
                else:
                    self.verdicts.note(f"what the handler sends to {event.topic} is not compared: only `to` is read")

    def _differing(self, fire: Fire, live: PublishedResult, rows: Sequence[OutboxRow]) -> Iterator[str]:
        pairs = (fire.key, live.key), (fire.last, live.last), (fire.count, live.count), (fire.reason, live.reason)
        shape = [name for name, (new, old) in zip(("key", "last", "count", "reason"), pairs, strict=True) if new != old]
        yield from shape
        if live.differing:
            yield "repeats of one id"
        if not shape:
            there = live.outputs
            if self._handle is not None:
                sent = self._sent.get(self._fire_id(live.number), {})
                there = there | {id: output for id, output in sent.items() if output.topic in self._compared}
            yield from _outputs_differing({row.id: _output(row) for row in rows}, there)

    def forwarded(self, record: Record, sent: Sequence[Sent], cut: bool) -> None:
        """Judges the messages that the rule sends for a record. `cut`: retention may have deleted the first
        messages."""
        key, offset = record.key() or b"", record.offset()
        live = self._sent.pop(self._fire_id(offset), {})
        if not self._judges(record.key()) or not (sent or live):
            self.verdicts.left_out += not (sent or live)
            return
        rows = {row.id: _output(row) for row in self._rows.make(sent)}
        self.verdicts.given += bool(rows)
        self.verdicts.published += bool(live)
        differs = tuple(_outputs_differing(rows, live)) if rows and live else ()
        verdict = _verdict(bool(live), differs) if rows else "extra"
        if verdict == "missing" and cut and not self.verdicts.published:
            verdict = "uncertain"
        extent = Extent(offset, offset, 1, "sent")
        self._count(self.verdicts.results, verdict, key, extent if live else None, extent if rows else None, differs)

    def early(self, live: PublishedResult, why: str) -> None:
        """Judges a published result that ended before its time."""
        if self._judges(live.key) and self._live.pop(live.number, None) is not None:
            self.verdicts.published += 1
            self._count(self.verdicts.results, "changed", live.key, _extent(live), None, (why,), live.number)

    def letter(self, refused: Refused) -> None:
        """Judges a record that the rule refuses."""
        offset, key = refused.record.offset(), refused.record.key() or b""
        if not self._judges(key):
            return
        [row] = self._rows.make((refused,))
        live, new = self._letters.pop(offset, None), Extent(offset, offset, 1, refused.reason)
        if live is None:
            verdict = "missing" if offset >= self._letters_from else "uncertain"
            self._count(self.verdicts.dead, verdict, key, None, new)
            return
        differs = tuple(_output_differing(_output(row), live))
        self._count(self.verdicts.dead, _verdict(True, differs), key, _of_letter(offset, live), new, differs)

    def witnessed_letter(self, offset: int) -> None:
        """Accepts a dead letter as published, because the bytes of the record do not show its reason."""
        letter = self._letters.pop(offset)
        if self._judges(letter.key):
            self.verdicts.dead.count("identical")

    def group(self, key: bytes, new: OpenExtent | None, live: OpenExtent | None, certain: bool = True) -> None:
        """Judges a group at the end: the rule holds `new` open, the store holds `live`."""
        if not self._judges(key):
            return
        extents = live and live.extent, new and new.extent
        if not certain or new is None or live is None:
            verdict = "uncertain" if not certain else "extra" if new is None else "missing"
            self._count(self.verdicts.open, verdict, key, *extents)
            return
        differs = tuple(
            name for name in ("first", "last", "records") if getattr(new.extent, name) != getattr(live.extent, name)
        )
        differs = differs or tuple(_fields_differing(encode(dict(new.values)), encode(dict(live.values))))
        self._count(self.verdicts.open, _verdict(True, differs), key, *extents, differs)

    def finish(self, begin: int, end: int, unsure: Callable[[PublishedResult], bool]) -> Shadowed:
        """Judges the published outputs between `begin` and `end` that have no counterpart. `unsure` answers whether the
        end of a group is uncertain."""
        for number, live in sorted(self._live.items(), key=lambda pair: in_order(pair[0])):
            if begin <= live.first and live.last < end and self._judges(live.key):
                self.verdicts.published += 1
                verdict = "uncertain" if unsure(live) else "extra"
                if self.verdicts.comparable:
                    self._count(self.verdicts.results, verdict, live.key, _extent(live), None, (), number)
        for offset, letter in sorted(self._letters.items()):
            if begin <= offset < end and self._judges(letter.key):
                self._count(self.verdicts.dead, "extra", letter.key or b"", _of_letter(offset, letter), None)
        return self.verdicts

    def _count(
        self,
        figures: Figures,
        verdict: str,
        key: bytes,
        live: Extent | None,
        new: Extent | None,
        differs: tuple[str, ...] = (),
        number: GroupNumber | None = None,
    ) -> None:
        """Counts a verdict. `number` is the number of a group; None: the first record of the place."""
        place = live or new
        if verdict == "identical" or place is None:
            figures.count(verdict)
            return
        identify = self._dead_id if figures is self.verdicts.dead else self._fire_id
        topic, partition = self._partition.topic, self._partition.number
        text = key.decode(errors="replace")
        figures.count(
            verdict,
            Example(
                verdict, text, topic, partition, identify(place.first if number is None else number), live, new, differs
            ),
        )


def _verdict(published: bool, differs: Sequence[str]) -> str:
    return "changed" if differs else "identical" if published else "missing"


def _extent(live: PublishedResult | None) -> Extent | None:
    return None if live is None else Extent(live.first, live.last, live.count, live.reason)


def _of_letter(offset: int, letter: PublishedOutput) -> Extent:
    return Extent(offset, offset, 1, letter.dead[1].decode(errors="replace") if letter.dead else "")


def _output(row: OutboxRow) -> PublishedOutput:
    return published(row.topic, row.key, row.value, by_name(row.headers))


def _outputs_differing(new: Mapping[str, PublishedOutput], live: Mapping[str, PublishedOutput]) -> Iterator[str]:
    for name in [*new, *(name for name in live if name not in new)]:
        made, there = new.get(name), live.get(name)
        if made is None or there is None:
            yield f"output to {(made or there or PublishedOutput('', None, None, ())).topic}"
        elif made != there:
            yield from _output_differing(made, there)


def _output_differing(new: PublishedOutput, live: PublishedOutput) -> Iterator[str]:
    if new.topic != live.topic:
        yield "topic"
    if new.key != live.key:
        yield "key"
    if new.dead != live.dead:
        yield "reason of the dead letter"
    if new.value != live.value:
        yield from _fields_differing(new.value, live.value)


def _fields_differing(new: bytes | None, live: bytes | None) -> Iterator[str]:
    """The names of the fields whose values differ; `value` where one of them is not a JSON object."""
    try:
        made, there = decode_any(new or b"null"), decode_any(live or b"null")
    except Exception:
        made = there = None
    if not isinstance(made, dict) or not isinstance(there, dict):
        yield "value"
        return
    names = [*made, *(name for name in there if name not in made)]
    yield from (name for name in names if name not in made or name not in there or made[name] != there[name])
