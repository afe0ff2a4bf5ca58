"""`on_error: {stop_above: 5% of 1m}`: a partition halts when too many of its records become dead letters.

Only committed records and dead letters count, so each counts once. The counts are in the memory of this process. They
restart at zero after a restart and after a halt.
"""

from collections import Counter, deque
from collections.abc import Sequence

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import BadItem, Event, Refused, Unhandled
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import DeadLettersStopped
from sluicegate.streams.hints import command
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.units import limit, spoken_duration

LEAST = 20
"""The minimum number of records for a limit in percent: one bad record of two does not halt a partition."""
STEPS = 60
"""The number of steps by which the time window moves."""


class CommittedStep:
    """The commits within one step: the number of records, and the dead letters by cause."""

    __slots__ = ("letters", "number", "records")

    def __init__(self, number: int) -> None:
        self.number, self.records, self.letters = number, 0, Counter[str]()


class DeadLetterLimit:
    """The limit of an agent, and the commits of its partitions within the time window, by the clock of their owners."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._limit = agent, limit(agent.on_error.stop_above)
        self._steps: dict[TopicPartition, deque[CommittedStep]] = {}

    def committed(self, owner: Owner, events: Sequence[Event], records: int, monotonic: float) -> None:
        """Note a commit of `records` records. The owner stops if the limit is exceeded."""
        if self._limit is None or owner.stopping is not None:
            return
        number = int(owner.now(monotonic) * STEPS / self._limit.seconds)
        steps = self._steps.setdefault(owner.place, deque())
        if steps and steps[-1].number > number:  # the store's clock was set back
            steps.clear()
        while steps and steps[0].number <= number - STEPS:
            steps.popleft()
        if not steps or steps[-1].number != number:
            steps.append(CommittedStep(number))
        steps[-1].records += records
        for cause, times in _causes(events):
            steps[-1].letters[cause] += times
        if text := self._exceeded(steps):
            owner.stopping = DeadLettersStopped(self._halt_text(owner, text))
            del self._steps[owner.place]

    def _exceeded(self, steps: deque[CommittedStep]) -> str:
        """Describe the exceeded limit; empty if it is not exceeded."""
        assert self._limit is not None
        letters = sum((step.letters for step in steps), Counter[str]())
        dead = letters.total()
        records = max(dead, sum(step.records for step in steps))
        if self._limit.percent:
            above = records >= LEAST and dead * 100 > self._limit.amount * records
        else:
            above = dead > self._limit.amount
        if not above:
            return ""
        [(cause, times)] = letters.most_common(1)
        share = f"{dead} of {records} records ({dead / records:.1%}) became dead letters"
        return (
            f"{share} within {spoken_duration(self._limit.seconds)}, and on_error.stop_above is "
            f"{self._agent.on_error.stop_above}; the most frequent cause is {cause} ({times})"
        )

    def _halt_text(self, owner: Owner, text: str) -> str:
        (topic, number), name = owner.place, self._agent.name
        listing = command(f"dead ls FILE {name} --by cause")
        return (
            f"agent {name}, {topic}/{number}, before offset {owner.claim.offset}: {text}: see {listing}, correct the "
            "cause, and restart: the partition goes on at this offset, and the count begins anew"
        )


def _causes(events: Sequence[Event]) -> list[tuple[str, int]]:
    """The cause of each dead letter, and the number of records that it stands for. The error text is left out
    because it may quote a record. The letter of an early result stands for one record, because its group still has
    the records."""
    causes = []
    for event in events:
        if isinstance(event, Refused):
            causes.append((_cause(event.reason, event.clause or event.where), 1))
        elif isinstance(event, BadItem):
            causes.append((event.reason, 1))
        elif isinstance(event, Unhandled):
            records = 1 if event.fire.goes_on else event.fire.count
            causes.append((_cause(event.reason, event.clause or event.where), records))
    return causes


def _cause(reason: str, where: str) -> str:
    return f"{reason} in {where}" if where else reason
