"""Makes the corrections of one partition: results of a rule that replace published ones. Pure.

A correction has the fire id of the group that begins with the same record, an id of its own that contains the number of
the replay, and the ids of all published results that share records with it. A published result that no group of the
rule replaces is replaced by a document with count 0.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import msgspec

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import EARLY, MERGED, Closing, Event, Fire, Refused, Sent
from sluicegate.streams.aggregation.results import document
from sluicegate.streams.contracts.headers import ID, REPLACES, REPLAY, RULE
from sluicegate.streams.contracts.ids import in_order, output_id
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import OutputFacts
from sluicegate.streams.contracts.values import GroupNumber, OutboxRow
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.shadow.judge import KnownRows, OpenExtent, clauses_of, decided, known_rows
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.shadow.witness import Codecs, Witness

NOTHING = "replay"
"""The reason of a document with count 0."""


class Corrections:
    """The corrections of replay `number` for the topic `into`, which `facts` describes. `digest` is the short digest of
    the rule."""

    def __init__(
        self, rule: Agent, codecs: Codecs, witness: Witness, digest: str, number: int, into: str, facts: OutputFacts
    ) -> None:
        self.verdicts, self.refused, self.removed = Shadowed(), 0, 0
        self._agent, self._number, self._into = rule, number, into
        self._digest = digest.encode()
        agent = sending(rule, into)
        self._results, self._published = clauses_of(agent), witness.published
        self._rows = Rows(witness.published.partition, agent, codecs.writes, facts, codecs.most)
        self._rows.begin("", 0, witness.topic_id)
        self._live, self._sent, self.most = witness.published.results, witness.published.sent, codecs.most
        self._whole: dict[bytes, list[PublishedResult]] = defaultdict(list)
        for _, live in sorted(self._live.items(), key=lambda pair: in_order(pair[0])):
            if witness.begin <= live.first and live.last < witness.end:
                self._whole[live.key].append(live)
        self._replaced: set[GroupNumber] = set()
        self._made: list[OutboxRow] = []

    def take_outputs(self) -> Sequence[OutboxRow]:
        """Returns the outputs since the last call."""
        made, self._made = self._made, []
        return made

    def result(self, fire: Fire, _certain: bool) -> None:
        if fire.reason in (EARLY, MERGED):  # the result of the whole group replaces them
            return
        live = self._live.get(fire.number)
        if live is not None and live.opened is not None:
            closed = fire.closed if live.closed is None or live.goes_on else live.closed
            fire = msgspec.structs.replace(fire, opened=live.opened, closed=closed)
        rows = [row for row in self._rows.make(self._events(fire)) if row.topic == self._into]
        if not rows:
            self.verdicts.left_out += 1
            return
        shared = self._sharing(fire)
        self._replaced.update(fire.number for fire in shared)
        self.verdicts.given += 1
        self._add(rows, fire.number, shared)

    def forwarded(self, record: Record, sent: Sequence[Sent]) -> None:
        """Takes the messages that the rule sends for a record."""
        offset = record.offset()
        outputs = self._sent.get(self._rows.fire_id(offset), {})
        if not sent and not outputs:
            self.verdicts.left_out += 1
            return
        self.verdicts.given += bool(sent)
        self.removed += not sent
        nothing = Sent(self._rows.fire_id(offset), 0, self._into, record.key(), None, [], None)
        live = PublishedResult(offset, record.key() or b"", offset, offset, 1, "sent", outputs)
        self._add(self._rows.make(sent or (nothing,)), offset, [live])

    def _events(self, fire: Fire) -> Sequence[Event]:
        return decided(self._agent, self._results, fire, self._looked_up(fire) if self._agent.lookups else None)

    def _looked_up(self, fire: Fire) -> KnownRows:
        """The rows of the published result, or of the newest result before it with the same key. Raises
        ConfigurationError."""
        of_key = [live for live in self._whole.get(fire.key, ()) if live.first <= fire.first]
        for live in (self._live.get(fire.number), *reversed(of_key)):
            if (rows := known_rows(self._agent, self._published, live)) is not None:
                return rows
        raise ConfigurationError(
            f"the group of records {fire.first} to {fire.last} has no published result, so the rows that it holds "
            "(lookup) are not known. Nothing more was sent"
        )

    def _sharing(self, fire: Fire) -> list[PublishedResult]:
        """The published results of the key with records of this group, newest first."""
        of_key = self._whole.get(fire.key, [])
        begun = of_key[: bisect_right(of_key, fire.last, key=lambda live: live.first)]
        if (window := fire.window) is not None:  # groups of one key have records between those of another window
            return [live for live in reversed(begun) if live.last >= fire.first and _overlap(live, window)]
        return list(takewhile(lambda live: live.last >= fire.first, reversed(begun)))

    def _add(self, rows: Sequence[OutboxRow], number: GroupNumber, shared: Sequence[PublishedResult]) -> None:
        fire = f"{self._rows.fire_id(number)}~{self._number}"
        replaces = ",".join(name for live in reversed(shared) for name in live.outputs).encode()
        for index, row in enumerate(rows):
            own = {ID: output_id(fire, index).encode(), RULE: self._digest}
            headers = [(name, own.get(name, value)) for name, value in row.headers]
            headers += [(REPLAY, b"%d" % self._number), (REPLACES, replaces)]
            self._made.append(msgspec.structs.replace(row, id=own[ID].decode(), headers=headers))

    def early(self, _live: PublishedResult, _why: str) -> None:
        pass

    def letter(self, _refused: Refused) -> None:
        self.refused += 1

    def witnessed_letter(self, _offset: int) -> None:
        self.refused += 1

    def group(self, _key: bytes, _new: OpenExtent | None, _live: OpenExtent | None, _certain: bool = True) -> None:
        pass

    def finish(self, _begin: int, _end: int, _unsure: Callable[[PublishedResult], bool]) -> Shadowed:
        """Makes the documents with count 0."""
        for live in self._unreplaced():
            opened, closed = live.opened or 0.0, live.closed or 0.0
            fire = Fire(live.key, 0, NOTHING, live.first, live.last, opened, closed, None, {}, window=_closing(live))
            if self._results is not None and self._results.routes is not None:
                fire = msgspec.structs.replace(fire, outputs=((0, document(fire)),))
            self._add(self._rows.make((fire,)), live.number, [live])
            self.removed += 1
        return self.verdicts

    def _unreplaced(self) -> Iterator[PublishedResult]:
        every = [live for of_key in self._whole.values() for live in of_key]
        rest = (live for live in every if live.number not in self._replaced and not live.goes_on)
        yield from sorted(rest, key=lambda live: in_order(live.number))


def _overlap(live: PublishedResult, window: Closing) -> bool:
    """Whether a published result has the same window, or one that overlaps it where the rule had other windows."""
    if live.window is None:
        return True
    if window.shared and live.window.end - live.window.start == window.end - window.start:
        return live.window.start == window.start
    return live.window.start < window.end and window.start < live.window.end


def _closing(live: PublishedResult) -> Closing | None:
    """The window of a published result."""
    if live.window is None:
        return None
    shared = isinstance(live.number, tuple) and live.window.revision == 1
    return Closing(live.window.start, live.window.end, "", -1, live.window.revision, shared=shared)


def sending(rule: Agent, into: str) -> Agent:
    """The rule, with all results directed to one topic."""
    to = None if rule.to is None else replace(rule.to, topic=into)
    return replace(rule, to=to, routes=tuple(replace(route, topic=into) for route in rule.routes))
