"""The one interface for what an agent does with its records and completed groups in a commit.

The implementations are `Aggregating` (no handler), Handling (a handler), Repartitioning and SharedIntake
(`scope: shared`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sluicegate.streams.aggregation.events import Decided, Event, Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.handlers.values import Message

Item = Message | Fire | Decided
"""An item of a commit. What is `Decided` goes into the commit as it is."""


class RecordProcessor(Protocol):
    """The methods with a body have defaults for implementations to which they do not apply."""

    batches: bool
    """Whether it takes completed groups. Otherwise it takes messages, which `read` makes."""
    session: bool = False
    """Whether handlers run in the store's transaction."""
    parks: bool = False
    """Whether `run` may park items: its events say so."""
    parts: bool = False
    """Whether a commit may take some of the messages and leave the others."""
    at_once: int = 0
    """Records of one insert into the shared buffer."""
    most: int = 0
    """Records of one commit, where inserts bound them."""
    held: int = 0
    """Bytes of records that were read since the last commit, where inserts bound them."""

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """Decode the records into messages or refused records."""

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> Sequence[Event]:
        """Process the items of one partition. Returns the events for the commit. Raises HandlerFailed and Halt."""

    def decoded(self, rule: Rule, record: Record) -> object:
        """The record's value as `read`, or the groups, will decode it. Raises what decoders raise, and ClauseFailed."""
        return rule.reader.read(record)

    def step(self, place: TopicPartition, offset: int) -> int:
        """The number of records that one commit may take; 0: no bound."""
        return 0

    def failing(self, place: TopicPartition, offset: int) -> int | None:
        """The first offset, from this one on, of a message that failed. None when no message can be processed now."""
        return None

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        """The commit of these items is durable."""
        return None

    def counted(self, groups: Groups) -> None:
        """A commit is durable: add to the groups' counters what was counted outside of them."""
        return None

    def refused(self, items: Sequence[Item], error: Exception) -> None:
        """The store refused the transaction of these items, with a session. Returns when they are to be run again."""
        raise error

    def failed(self, error: Exception, items: Sequence[Item] = ()) -> None:
        """`run` with a session raised this error. Returns when the items are to be run again at once."""
        raise error

    def probed(self, error: Exception, apart: Callable[[Callable[[Any], object]], None] | None = None) -> Exception:
        """The error to judge in place of this one. `apart` makes a call with a session that is rolled back."""
        return error

    def forget(self, place: TopicPartition) -> None:
        """Drop the state of the partition: another worker owns it."""
        return None

    def holds(self, place: TopicPartition, offset: int, identify: Identify) -> bool:
        """Whether the shared buffer holds the record. Raises PersistenceError."""
        return False

    @property
    def full(self) -> bool:
        """Whether intake must pause."""
        return False

    @property
    def busy(self) -> bool:
        """Whether calls run outside of the commits."""
        return False

    def turn(self, now: float) -> None:
        """Do the work of one turn of the loop that is outside of the commits."""
        return None

    def measure(self, now: float, first: bool) -> None:
        """Measure the numbers that all workers share, if this worker owns the `first` partition."""
        return None

    def stop(self) -> None:
        """The process will end: begin no more work outside of the commits."""
        return None

    def finish(self) -> None:
        """The process ends: wait for the store calls that still run."""
        return None


class Aggregating(RecordProcessor):
    """An agent without a handler: completed groups become outputs unchanged."""

    batches = True

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        raise NotImplementedError("the groups take the records")

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> Sequence[Event]:
        return items  # type: ignore[return-value]  # an aggregation yields no messages
