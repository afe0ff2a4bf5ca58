"""Rebuilds an agent that sends each record on, under its own key or another one. It holds no groups: its state is the
offset, and with event time the clock of its origin. Pure."""

from collections.abc import Sequence

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.ids import fire_ids, output_id
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.handlers.forwarding import Forwarding
from sluicegate.streams.handlers.processor import RecordProcessor
from sluicegate.streams.handlers.rekey import rekeying
from sluicegate.streams.operations.rebuild import Reach, RebuildIntake, Rebuilt
from sluicegate.streams.operations.rebuild_known import KnownOutputs
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.windows.opening import groups_of
from sluicegate.streams.windows.origins import OriginGroups


class Rekeyed:
    """Takes the records of one partition from `known.begin` on, in order. Outputs that were never sent are decided
    again."""

    def __init__(
        self,
        agent: Agent,
        reads: Codec,
        ids: IdRule | None,
        known: KnownOutputs,
        reach: Reach,
        latest: float,
        topic_id: str,
        most: int,
    ) -> None:
        rule = Rule(agent, reads)
        self._groups, self._known, self._reach = groups_of(rule), known, reach
        self._sending: RecordProcessor = (
            rekeying(agent, rule, reads, most) if agent.rekeys else Forwarding(agent, rule, reads, most)
        )
        self._intake = RebuildIntake(known.partition, agent, ids, known, latest)
        self._identify = fire_ids(known.partition, topic_id)
        self._decided: dict[GroupNumber, Event] = {}
        self._doubtful: list[int] = []
        self._results = 0

    def take(self, records: Sequence[Record]) -> None:
        """Raises DecodeStopped and ProduceStopped where the file says stop."""
        place, groups = (self._known.partition.topic, self._known.partition.number), self._groups
        for record in records:
            for run in self._intake.fresh(record, groups):
                if isinstance(groups, OriginGroups):
                    groups.saw(self._intake.now)
                events = self._sending.run(self._sending.read(groups, run), self._identify, None, place)
                self._sent(record.offset(), [event for event in events if isinstance(event, Refused | Sent)])
            if isinstance(groups, OriginGroups):
                for left_out in self._intake.left_out:
                    groups.passed(left_out)
            self._sent(record.offset(), [event for event in groups.drain() if isinstance(event, Refused)])
        self._intake.settle()

    def _sent(self, offset: int, events: Sequence[Refused | Sent]) -> None:
        """These events of a record, without those that a topic has."""
        for index, event in enumerate(events):
            if isinstance(event, Sent) and output_id(event.fire, event.index) in self._known.ids:
                self._results += 1
                continue
            self._decided[offset if index == 0 else (offset, index)] = event
            if offset < (self._reach.letters if isinstance(event, Refused) else self._reach.results):
                self._doubtful.append(offset)

    def finish(self, offset: int) -> Rebuilt:
        """All records below `offset` were taken."""
        intake = self._intake
        return Rebuilt(
            self._known.partition,
            offset,
            intake.epoch,
            self._groups,
            intake.senders,
            intake.dedupe.seen if intake.dedupe else None,
            self._decided,
            intake.records,
            self._results,
            self._doubtful,
        )
