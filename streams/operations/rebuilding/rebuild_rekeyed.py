"""Rebuilds an agent that sends each record on, under its own key or another one. Its state is the offset, with event
time the clock of its origin, and of a table the rows. Pure."""

from collections.abc import Sequence

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.contracts.ids import output_id
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.operations.rebuilding.rebuild import IntakeFacts, Reach, Rebuilt
from sluicegate.streams.operations.rebuilding.rebuild_known import KnownOutputs
from sluicegate.streams.operations.replaying.record_replay import RecordReplay
from sluicegate.streams.reading.dedupe import IdRule


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
        self._known, self._reach = known, reach
        # a record that no group of a table can have takes the row before it back
        aside = known.crashed if agent.keeps_rows else known.dead
        facts = IntakeFacts(known.partition, known.proof, aside)
        self._replay = RecordReplay(agent, reads, ids, facts, latest, topic_id, most)
        self._decided: dict[GroupNumber, Event] = {}
        self._doubtful: list[int] = []
        self._results = 0

    def take(self, records: Sequence[Record]) -> None:
        """Raises DecodeStopped and ProduceStopped where the file says stop."""
        for record in records:
            self._sent(record.offset(), self._replay.events(record))
        self._replay.intake.settle()

    def _sent(self, offset: int, events: Sequence[Refused | Sent]) -> None:
        """The events of a record that are not in a topic yet."""
        for index, event in enumerate(events):
            if isinstance(event, Refused) and offset in self._known.dead:
                continue
            if isinstance(event, Sent) and output_id(event.fire, event.index) in self._known.ids:
                self._results += 1
                continue
            self._decided[offset if index == 0 else (offset, index)] = event
            if offset < (self._reach.letters if isinstance(event, Refused) else self._reach.results):
                self._doubtful.append(offset)

    def finish(self, offset: int) -> Rebuilt:
        """The result. The caller has passed all records below `offset`."""
        intake = self._replay.intake
        return Rebuilt(
            self._known.partition,
            offset,
            intake.epoch,
            self._replay.groups,
            intake.senders,
            intake.dedupe.seen if intake.dedupe else None,
            self._decided,
            intake.records,
            self._results,
            self._doubtful,
        )
