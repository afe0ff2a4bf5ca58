"""The one interface for processing an agent's records and completed groups in a commit.

The implementations are `Aggregating` (no handler), Handling (a handler), Repartitioning and SharedIntake (`scope:
shared`).
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
"""An item of a commit. A `Decided` item is committed unchanged."""


class RecordProcessor(Protocol):
    """Methods with a body are defaults for implementations that do not need them."""

    batches: bool
    """Whether it processes completed groups. Otherwise it processes messages, which `read` makes."""
    session: bool = False
    """Whether handlers run in the store's transaction."""
    parks: bool = False
    """Whether `run` may park items. Its events tell which."""
    parts: bool = False
    """Whether a commit may include only some of the messages."""
    at_once: int = 0
    """The number of records in one insert into the shared buffer."""
    most: int = 0
    """The maximum number of records of one commit, if inserts limit it."""
    read_bytes: int = 0
    """The bytes of records that were read since the last commit, if inserts limit them."""

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """Decode the records into messages or refused records."""

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> Sequence[Event]:
        """Process the items of one partition. Returns the events for the commit. Raises HandlerFailed and Halt."""

    def decoded(self, rule: Rule, record: Record) -> object:
        """Decode the record's value as `read`, or the groups, will decode it. Raises ClauseFailed, and the errors of
        decoders."""
        return rule.reader.read(record)

    def step(self, place: TopicPartition, offset: int) -> int:
        """The number of records that one commit may take; 0: no bound."""
        return 0

    def failing(self, place: TopicPartition, offset: int) -> int | None:
        """The first offset, at or after this one, of a message that failed. None if no message can be processed now."""
        return None

    def committed(self, items: Sequence[Item], identify: Identify, place: TopicPartition) -> None:
        """Called when the commit of these items is durable."""
        return None

    def counted(self, groups: Groups) -> None:
        """Called when a commit is durable: add the counts of this processor to the counters of the groups."""
        return None

    def refused(self, items: Sequence[Item], error: Exception) -> None:
        """Called when the store refused the transaction of these items, with a session. Returns if they must be run
        again."""
        raise error

    def failed(self, error: Exception, items: Sequence[Item] = ()) -> None:
        """Called when `run` with a session raised this error. Returns if the items must be run again at once."""
        raise error

    def probed(self, error: Exception, apart: Callable[[Callable[[Any], object]], None] | None = None) -> Exception:
        """The error to judge instead of this one. `apart` makes a call with a session that is rolled back."""
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
        """Do the work outside of the commits for one turn of the loop."""
        return None

    def measure(self, now: float, first: bool) -> None:
        """Measure the metrics that all workers share, if this worker owns the `first` partition."""
        return None

    def stop(self) -> None:
        """Begin no more work outside of the commits: the process will end."""
        return None

    def finish(self) -> None:
        """Wait for the store calls that still run: the process ends."""
        return None


class Aggregating(RecordProcessor):
    """An agent without a handler: completed groups become outputs unchanged."""

    batches = True

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        raise NotImplementedError("the groups take the records")

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> Sequence[Event]:
        return items  # type: ignore[return-value]  # an aggregation yields no messages
