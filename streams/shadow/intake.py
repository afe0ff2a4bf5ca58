"""Selects the records that a shadow takes."""

from collections.abc import Collection, Sequence

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.reading.gate import RecordGate
from sluicegate.streams.shadow.published import Published
from sluicegate.streams.shadow.witness import moved_the_watermark, outside


class ShadowIntake(RecordGate):
    """`unseen`: it is unknown which windows had closed. `merges`: the records come from several origins. Of the records
    at `only_timed` only the time counts."""

    def __init__(self, rule: Agent, reads: Codec, published: Published, unseen: bool, merges: bool) -> None:
        ids = IdRule(rule, reads) if rule.dedupe else None
        super().__init__(published.partition, rule, ids, published.proof)
        self._aside = {offset for offset, letter in published.letters.items() if outside(letter.dead, unseen)}
        timed = self._aside if merges else ()
        self.only_timed = {offset for offset in timed if moved_the_watermark(published.letters[offset].dead)}

    def aside(self, run: Sequence[Record]) -> Collection[int]:
        """The offsets of records that became dead letters for a reason that their bytes do not show."""
        return self._aside.intersection(record.offset() for record in run) if self._aside else ()

    def without(self, aside: Collection[int], run: Sequence[Record]) -> Sequence[Record]:
        """The records except those at the offsets `aside`. Records at `only_timed` are kept, for their time."""
        return (
            [record for record in run if (at := record.offset()) not in aside or at in self.only_timed]
            if aside
            else run
        )
