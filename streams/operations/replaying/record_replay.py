"""Decides about each record of an agent that sends on: it forwards the record, under its own key or another one, or
writes how the groups of a table change. Pure. A rebuild sends the missing messages, a shadow compares them, a rewind
corrects them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sluicegate.schemas import Codec
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Refused, Sent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import ConfigurationError, Halt
from sluicegate.streams.handlers.forwarding import Forwarding
from sluicegate.streams.handlers.processor import RecordProcessor
from sluicegate.streams.handlers.rekey import rekeying
from sluicegate.streams.handlers.tables import KeepingRows
from sluicegate.streams.operations.rebuilding.rebuild import IntakeFacts, RebuildIntake
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.shadow.corrections import Corrections, sending
from sluicegate.streams.shadow.judge import ShadowJudge
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness, judge_start, outside
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.origins import OriginGroups


class RecordReplay:
    """Replays the records of one partition, in order. `latest` is the store's time."""

    def __init__(
        self,
        agent: Agent,
        reads: Codec,
        ids: IdRule | None,
        facts: IntakeFacts,
        latest: float,
        topic_id: str,
        most: int,
    ) -> None:
        rule = Rule(agent, reads)
        self.groups = groups_of(rule)
        self._sending = _sending(agent, rule, reads, most)
        self.intake = RebuildIntake(facts.partition, agent, ids, facts, latest)
        self._place = facts.partition.topic, facts.partition.number
        self._identify = fire_ids(facts.partition, topic_id)

    def events(self, record: Record) -> list[Refused | Sent]:
        """Raises DecodeStopped and ProduceStopped where the file says stop."""
        groups, decided = self.groups, list[Refused | Sent]()
        for run in self.intake.new(record, groups):
            if isinstance(groups, OriginGroups):
                groups.saw(self.intake.now)
            events = self._sending.run(self._sending.read(groups, run), self._identify, None, self._place)
            decided += [event for event in events if isinstance(event, Refused | Sent)]
        if isinstance(groups, OriginGroups):
            for left_out in self.intake.left_out:
                groups.passed(left_out)
        return [*decided, *(event for event in groups.drain() if isinstance(event, Refused))]


def _sending(agent: Agent, rule: Rule, reads: Codec, most: int) -> RecordProcessor:
    if agent.keeps_rows:
        return KeepingRows(agent, reads, most)
    return rekeying(agent, rule, reads, most) if agent.rekeys else Forwarding(agent, rule, reads, most)


class _Range(NamedTuple):
    """The records of a witness to judge, and the records before them."""

    witness: Witness
    records: Iterable[Sequence[Record]]
    before: Iterable[Sequence[Record]]


def _decided(rule: Agent, codecs: Codecs, read: _Range) -> Iterator[tuple[Record, list[Refused | Sent], bool]]:
    """Each record of the range with its events. The last value: the record was refused for a reason that its bytes do
    not show. Raises ConfigurationError."""
    witness, published = read.witness, read.witness.published
    judge_start(rule, witness, 0.0)
    aside = {offset for offset, letter in published.letters.items() if outside(letter.dead)}
    facts = IntakeFacts(published.partition, published.proof, aside)
    ids = IdRule(rule, codecs.reads) if rule.dedupe else None
    replay = RecordReplay(rule, codecs.reads, ids, facts, witness.now, witness.topic_id, codecs.most)
    for record in (record for batch in read.before for record in batch):
        replay.events(record)
    try:
        for record in (record for batch in read.records for record in batch):
            yield record, replay.events(record), record.offset() in aside
    except Halt as error:
        raise ConfigurationError(f"agent {rule.name} would halt here: {error}") from error


def compared(
    rule: Agent,
    witness: Witness,
    records: Iterable[Sequence[Record]],
    only: bytes | None,
    most: int,
    before: Iterable[Sequence[Record]],
    cut: bool,
) -> Shadowed:
    """Same as sluicegate.streams.shadow.folded, for an agent without groups. `cut`: retention deleted outputs. Raises
    ConfigurationError."""
    codecs = Codecs(formats.reads(rule), formats.writes(rule), most)
    judge = ShadowJudge(rule, codecs, witness, only)
    for record, events, witnessed in _decided(rule, codecs, _Range(witness, records, before)):
        judge.verdicts.records += 1
        if witnessed:
            judge.witnessed_letter(record.offset())
            continue
        for event in events:
            if isinstance(event, Refused):
                judge.letter(event)
        judge.forwarded(record, [event for event in events if isinstance(event, Sent)], cut)
    return judge.finish(witness.begin, witness.end, lambda live: False)


def corrected(
    rule: Agent,
    witness: Witness,
    records: Iterable[Sequence[Record]],
    corrections: Corrections,
    into: str,
    before: Iterable[Sequence[Record]],
) -> Iterator[tuple[int, Sequence[OutboxRow]]]:
    """Same as sluicegate.streams.shadow.corrected, for an agent without groups: a message replaces the published
    messages of its record. A record that no longer sends anything has a message without a value. Raises
    ConfigurationError."""
    agent = sending(rule, into)
    codecs = Codecs(formats.reads(rule), formats.writes(rule), corrections.most)
    for record, events, _ in _decided(agent, codecs, _Range(witness, records, before)):
        corrections.verdicts.records += 1
        corrections.refused += sum(isinstance(event, Refused) for event in events)
        corrections.forwarded(record, [event for event in events if isinstance(event, Sent)])
        yield record.offset(), corrections.take_outputs()
    yield witness.end, corrections.take_outputs()
