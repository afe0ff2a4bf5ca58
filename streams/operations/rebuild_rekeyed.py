"""Rebuilds an agent of `repartition:`: it holds no groups, so its state is only the offset. Pure."""

from collections.abc import Sequence

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Event, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.handlers.rekey import Repartitioning
from sluicegate.streams.operations.rebuild import Reach, RebuildIntake, Rebuilt
from sluicegate.streams.operations.rebuild_known import KnownOutputs
from sluicegate.streams.reading.dedupe import IdRule


class Rekeyed:
    """Takes the records of one partition from `known.begin` on, in order; records that were never sent on are sent."""

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
        self._groups, self._known, self._reach = Groups(rule), known, reach
        self._rekeying = Repartitioning(rule, agent.to.topic if agent.to else "", most)
        self._intake = RebuildIntake(known.partition, agent, ids, known, latest)
        self._identify = fire_ids(known.partition, topic_id)
        self._decided: dict[int, Event] = {}
        self._doubtful: list[int] = []
        self._results = 0

    def take(self, records: Sequence[Record]) -> None:
        """Raises DecodeStopped and ProduceStopped where the file says stop."""
        place = self._known.partition.topic, self._known.partition.number
        for record in records:
            for run in self._intake.fresh(record, self._groups):
                if self._known.went_on(record.offset()):
                    self._results += 1
                    continue
                for event in self._rekeying.run(self._rekeying.read(self._groups, run), self._identify, None, place):
                    self._decide(record.offset(), event)
            for refused in self._groups.drain():
                self._decide(record.offset(), refused)
        self._intake.settle()

    def _decide(self, offset: int, event: Event) -> None:
        sure = self._reach.letters if isinstance(event, Refused) else self._reach.results
        self._decided[offset] = event
        if offset < sure:
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
