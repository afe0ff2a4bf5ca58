"""Kafka as a process sees it: a group whose news arrive at the next poll, records that come again or too far on,
delivery reports that are late or say no. The log is sluicegate.streams.testing.log's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport, TopicPartition
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.testing import hashing
from sluicegate.streams.testing.log import LogInput, LogRecord, one_by_one


class News(NamedTuple):
    """What the group decided of a partition, and its member does not know yet."""

    kind: str  # give or take
    place: TopicPartition


class Group:
    """The members of one agent, and who was given which partition last. A member that is away keeps what it believes
    until it polls. `cooperative`: what a living member has is given on when it let go, else at once, as to a member
    that is not heard of."""

    def __init__(self, places: Sequence[TopicPartition], cooperative: bool) -> None:
        self.places, self._cooperative = list(places), cooperative
        self.holders: dict[TopicPartition, Any] = dict.fromkeys(self.places)
        self._next: dict[TopicPartition, Any] = {}

    def assign(self, members: Sequence[Any], first: int) -> int:
        """Each partition to one of the members, beginning with number `first`; returns how many change hands."""
        moved = 0
        for at, place in enumerate(self.places):
            new = members[(at + first) % len(members)] if members else None
            old = self.holders[place]
            if new is old:
                if place in self._next:
                    self._next[place] = old
                continue
            moved += 1
            if old is not None and place not in self._next:
                old.input.news.append(News("take", place))
            self._next[place] = new
            if old is None or not self._cooperative:
                self.let_go(place)
        return moved

    def polled(self, place: TopicPartition, member: Any) -> None:
        """The member knows that it was taken: where that was waited for it is given on."""
        if self.holders[place] is member and place in self._next:
            self.let_go(place)

    def let_go(self, place: TopicPartition) -> None:
        """Its holder has it no more: the next one is told."""
        new = self.holders[place] = self._next.pop(place, None)
        if new is not None:
            new.input.news.append(News("give", place))

    def leave(self, member: Any) -> None:
        """It is gone, or was silent for too long: what it had is nobody's until the next assignment."""
        for place, new in list(self._next.items()):
            if new is member:
                self._next[place] = None
        for place, holder in self.holders.items():
            if holder is member:
                member.input.news.append(News("take", place))
                self.let_go(place)


class Input:
    """One member's consumer: satisfies sluicegate.streams.contracts.stores.Input. `away` until that step Kafka does not
    answer, and no error tells: what was said of the ends of partitions stays. `ahead` records are passed over by the
    next fetch after a seek, as where a fetch was under way. Behind that answer the client asks for later records: the
    same one does not come too early twice in a row. `stale`: the next answer about a partition comes from a broker
    that does not know the last so many records."""

    def __init__(self, inner: LogInput, process: Any) -> None:
        self._inner, self._process = inner, process
        self.news: list[News] = []
        self._ends: dict[TopicPartition, int] = {}
        self.away = 0
        self.ahead = self.stale = 0
        self.highs: dict[TopicPartition, float] = {}  # the ends of partitions in the last answers about them
        self._early: dict[TopicPartition, int] = {}  # the position of the last answer that came too early

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def poll(self, timeout: float) -> Record | None:
        news, self.news = self.news, []
        for message in news:
            if message.kind == "give":
                self._inner.give(message.place)
                continue
            # given and taken within one poll
            self._inner.newly_assigned = [place for place in self._inner.newly_assigned if place != message.place]
            self._inner.take(message.place)
            self._process.group.polled(message.place, self._process)
        if self._process.world.number < self.away:
            return None
        self._ends.update({place: self._inner.ended(*place) for place in self._inner.positions})
        return self._inner.poll(timeout)

    def ended(self, topic: str, number: int) -> int:
        return self._ends.get((topic, number), -1)

    def look_again(self, topic: str, number: int) -> None:
        self._ends.pop((topic, number), None)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            self._ends.pop(place, None)
        self._inner.resume(partitions)

    def resume_alone(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self.resume([(topic, number)])

    def spare(self) -> bool:
        return True

    def alone(self, topic: str, number: int) -> bool:
        return False

    def facts(self, topic: str, number: int) -> Any:
        self._answer()
        facts = self._inner.facts(topic, number)
        behind, self.stale = min(self.stale, facts.high - facts.low), 0
        if behind:
            self._process.world.note("stale", f"{topic}/{number} {facts.high}-{behind}")
        self.highs[topic, number] = facts.high - behind
        return facts._replace(high=facts.high - behind)

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self._answer()
        self._ends.pop((topic, number), None)
        self._inner.start(topic, number, offset, epoch)
        early = offset + self.ahead
        if self.ahead and self._inner.log.high(topic, number) > early != self._early.get((topic, number)):
            self._inner.positions[topic, number] = self._early[topic, number] = early
            self._process.world.note("ahead", f"{topic}/{number} {offset}+{self.ahead}")
            self.ahead = 0

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        """The group refuses whom it has not given the partition."""
        if self._process.group.holders[topic, number] is self._process and self._process.world.number >= self.away:
            self._inner.inform(topic, number, offset, metadata)

    def again(self, records: int, target: int) -> bool:
        """Records that were read come once more, as after a seek of somebody else's."""
        places = [place for place, position in self._inner.positions.items() if position > 0]
        if not places:
            return False
        place = places[target % len(places)]
        self._inner.positions[place] = max(0, self._inner.positions[place] - records)
        return True

    def _answer(self) -> None:
        if self._process.world.number < self.away:
            raise SystemNotReady("Kafka does not answer")


class Sending:
    """A row under way. `fate` is delivered, failed (never written), failed-written, failed-late, or
    what the broker says who will not write it: rejected (the row), denied (the topic)."""

    __slots__ = ("fate", "report", "report_at", "row", "write_at", "written")

    def __init__(self, row: OutboxRow, report: DeliveryReport, fate: str, write_at: int, report_at: int) -> None:
        self.row, self.report, self.fate, self.write_at, self.report_at = row, report, fate, write_at, report_at
        self.written = False


FATES = ("failed", "failed-written", "failed-late")
REFUSED = ("rejected", "denied")
NEVER = ("failed", *REFUSED)  # written


class Producer:
    """Satisfies sluicegate.streams.contracts.stores.Producer. Each output partition is written in order; after a row
    that failed no later one of its partition is written but in order and late, until `replace`. `failing` rows fail
    next, and `gaps` rows alone, with those behind them written; `slow` until that step reports wait; `room` for so many
    unreported rows."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.waiting: list[Sending] = []
        self.replaced: list[Sending] = []
        self._broken: dict[tuple[str, int], str] = {}
        self.failing, self.fate, self.gaps = 0, FATES[0], 0
        self.slow = self.full = 0
        self.room = 1 << 30

    @property
    def _now(self) -> int:
        number: int = self._process.world.number
        return number

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        world = self._process.world
        world.reach("row-offered")
        if self._now < self.full or len(self.waiting) >= self.room:
            return False
        fate = self._fate((row.topic, row.partition), row.id)
        world.offered.add(row.id)
        wait = world.chance.randrange(1, 12) if self._now < self.slow else 0
        sending = Sending(row, report, fate, self._now + wait // 2, self._now + wait)
        before = [
            batch for batch in self.waiting if (batch.row.topic, batch.row.partition) == (row.topic, row.partition)
        ]
        if before:
            sending.write_at = max(sending.write_at, before[-1].write_at)
            sending.report_at = max(sending.write_at, sending.report_at, before[-1].report_at)
        self.waiting.append(sending)
        self.write()
        return True

    def _fate(self, place: tuple[str, int], id: str) -> str:
        world = self._process.world
        if id in world.refused:
            return "rejected"
        if place in self._broken:
            return "failed" if self._broken[place] == "failed-written" else self._broken[place]
        if self.gaps:
            self.gaps -= 1
            world.passed.add(id)
            world.note("gap", f"{place[0]}/{place[1]}")
            return "failed"
        if not self.failing:
            return "delivered"
        self.failing -= 1
        if self.fate != "rejected":
            self._broken[place] = self.fate
        elif id in world.offered:  # a copy of it may be there, or come: who took one takes the other
            return "delivered"
        else:
            world.refused.add(id)
        world.note(self.fate if self.fate in REFUSED else "delivery", f"{self.fate} {place[0]}/{place[1]}")
        return self.fate

    def write(self) -> None:
        """What its time has come for is in the log now."""
        for batch in self.waiting:
            if not batch.written and batch.write_at <= self._now and batch.fate in ("delivered", "failed-written"):
                self._append(batch)

    def _append(self, sending: Sending) -> None:
        row = sending.row
        sending.written = True
        world = self._process.world
        world.log.append(
            row.topic, row.partition, row.key, row.value, list(row.headers), int(world.clock.time() * 1000)
        )

    def late(self, most: int) -> int:
        """Rows of a process that is gone, or of a producer given up, that the network still had: the first `most` of
        each partition."""
        rest: dict[tuple[str, int], int] = {}
        written = 0
        gone = not self._process.alive
        for row in [*self.replaced, *(self.waiting if gone else ())]:
            place = (row.row.topic, row.row.partition)
            if row.written or row.fate in NEVER or rest.get(place, 0) >= most:
                rest[place] = most if not row.written else rest.get(place, 0)
                continue
            rest[place] = rest.get(place, 0) + 1
            self._append(row)
            written += 1
        self.replaced = []
        return written

    def poll(self) -> int:
        self.write()
        world = self._process.world
        due = [batch for batch in self.waiting if batch.report_at <= self._now]
        self.waiting = [batch for batch in self.waiting if batch.report_at > self._now]
        # no later one is written before it
        self.replaced += [batch for batch in due if not batch.written and batch.fate == "failed-late"]
        for batch in _shuffled(due, world.chance):
            world.reach("report-arrived")
            batch.report(batch.fate if batch.fate in ("delivered", *REFUSED) else "failed", "by the simulation")
        return len(self.waiting)

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return one_by_one(self.produce, rows, reports)

    def send_now(self) -> None: ...

    def replace(self) -> None:
        self.replaced += [batch for batch in self.waiting if not batch.written]
        self.waiting, self._broken = [], {}

    def partitions(self, topic: str) -> int:
        count: int = self._process.world.log.count(topic)
        return count

    def partition_of(self, key: bytes, count: int) -> int:
        return hashing.partition_of(key, count)

    def flush(self, timeout: float) -> int:
        """Time passes: what is under way is a step nearer to the log, and to its report."""
        self._process.world.clock.forward(timeout)
        for batch in self.waiting:
            batch.write_at, batch.report_at = batch.write_at - 1, batch.report_at - 1
        return self.poll()

    def close(self) -> None: ...


def _shuffled(due: list[Sending], chance: Any) -> list[Sending]:
    """In any order among output partitions, in order within each."""
    if len({(batch.row.topic, batch.row.partition) for batch in due}) < 2:
        return due
    order = [(batch.row.topic, batch.row.partition) for batch in due]
    chance.shuffle(order)
    lines: dict[tuple[str, int], list[Sending]] = {}
    for batch in reversed(due):
        lines.setdefault((batch.row.topic, batch.row.partition), []).append(batch)
    return [lines[place].pop() for place in order]


__all__ = ["Group", "Input", "LogRecord", "Producer"]
