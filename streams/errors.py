"""The error classes. The loop reacts to each class in one way.

SluicegateError
├── ConfigurationError       the file or the call is invalid: exit 2
├── SystemNotReady           a system is unavailable, not migrated or too weak, or a topic is missing: exit 3
│   ├── TopicMissing         Kafka has no such topic
│   ├── InstanceFenced       another member of the group has the name of this one
│   ├── NotPermitted         Kafka denies a permission: exit at the start, an outage later
│   ├── NotAuthenticated     a certificate or password was refused (also a PersistenceError): no retry
│   └── RuleBehind           the partition is at a later version of the rule
├── RestartNeeded            the process ends, and its supervisor starts it again
├── Fenced                   a newer claim exists: drop the state, claim again with back-off while assigned
├── PersistenceError         the store failed and the outcome is unknown: same recovery as Fenced
│   ├── NotCommitted         the store refused the transaction: nothing was written
│   └── LookupFailed         the store cannot answer a `lookup`: nothing was written
├── ConcurrencyError         the lease of a row or lane was lost, or the row is gone: nothing was written
│   ├── WatermarkMoved       another worker inserted from this partition: read from its position
│   └── AggregationNotFound  the buffer has no rows (also a KeyNotFoundError)
├── KeyNotFoundError         the name does not exist
├── HandlerFailed            a handler raised and will be called again: same recovery, after its own back-off
├── EngineFault              the engine raised an error of its own: same recovery, and it counts like a death
│   └── GroupFault           the same while a group ends: it counts for the group
├── DecodeWaits              a record cannot be decoded and `on_error` is `wait`: the partition's intake pauses
└── Halt                     to continue could lose or repeat records: this partition stops, the others continue
    ├── RetentionPassed
    ├── LogTruncated
    ├── TopicRecreated
    ├── StoreWiped
    ├── StoreSwapped
    ├── StoreRewound
    ├── ChangelogIncomplete
    ├── PartitionsChanged
    ├── Unfetchable
    ├── RewindMismatch
    ├── BufferFull
    ├── DecodeStopped
    ├── ExpressionStopped
    ├── ProduceStopped
    ├── DeadLettersStopped
    └── HandlerStopped
"""

from typing import TypeVar


class SluicegateError(Exception):
    """The base class of all errors that Sluicegate raises deliberately."""

    permanent = False
    """True if the same call cannot succeed before an operator changes something. A command then exits at its start
    instead of waiting. A process that has reached the system before treats the error as an outage."""


E = TypeVar("E", bound=SluicegateError)


def permanent(error: E) -> E:
    """Mark the error as permanent and return it."""
    error.permanent = True
    return error


class ConfigurationError(SluicegateError):
    """The file or a call is invalid."""


class SystemNotReady(SluicegateError):
    """A system is unavailable or not migrated, its durability is too weak, or a topic is missing."""


class RuleBehind(SystemNotReady):
    """The partition has a later version of the rule than this worker."""


class RestartNeeded(SluicegateError):
    """The process ends, and its supervisor starts it again."""


class TopicMissing(SystemNotReady):
    """Kafka has no such topic."""


class InstanceFenced(SystemNotReady):
    """Another member of the group took the place of this one: two runs of the app have the same name."""


class NotPermitted(SystemNotReady):
    """The user lacks a permission. At the start the command exits; later the process waits for the permission."""

    permanent = True


class Fenced(SluicegateError):
    """A newer claim exists. The commit changed nothing."""


class PersistenceError(SluicegateError):
    """The store failed, or its reply was lost. The next claim shows whether the commit succeeded. The driver's error is
    the cause."""


class NotAuthenticated(PersistenceError, SystemNotReady):
    """A certificate or password was refused, by either side. A retry would be refused as well. At the start the command
    exits. Later the process exits and is started again with the current secrets of the file."""

    permanent = True


class NotCommitted(PersistenceError):
    """The store refused the transaction at its commit. Nothing of it was written."""


class LookupFailed(PersistenceError):
    """The store cannot answer a lookup: its table does not exist, or may not be read. Nothing was written. The
    partition waits until it can."""


class ConcurrencyError(SluicegateError):
    """A precondition of the call no longer holds: the lease expired or has another owner, or the row is gone. Nothing
    was changed."""


class WatermarkMoved(ConcurrencyError):
    """The position of the source is not the one that the caller expected. `next` is the current one."""

    def __init__(self, text: str, next: int) -> None:
        super().__init__(text)
        self.next = next


class KeyNotFoundError(SluicegateError):
    """The name does not exist."""


class AggregationNotFound(KeyNotFoundError, ConcurrencyError):
    """The buffer has no rows, so the row was not found."""


class HandlerFailed(SluicegateError):
    """A handler failed. Its items were rolled back and are handled again after `delay` seconds."""

    def __init__(self, text: str, delay: float) -> None:
        super().__init__(text)
        self.delay = delay


class EngineFault(SluicegateError):
    """The engine raised an unexpected error while it worked on one partition. The original error is its cause."""


class GroupFault(EngineFault):
    """The engine raised an unexpected error while the group with this number (`Fire.number`) ended."""

    def __init__(self, text: str, number: int | tuple[int, ...]) -> None:
        super().__init__(text)
        self.number = number


class DecodeWaits(SluicegateError):
    """The record at `offset` cannot be decoded now. It may be decodable later. `why` is the reason in few words."""

    def __init__(self, text: str, offset: int, why: str = "undecodable") -> None:
        super().__init__(text)
        self.offset, self.why = offset, why


class Halt(SluicegateError):
    """The partition must not continue without an operator. `code` is the stable name in logs, health and status."""

    code = "halted"


class RetentionPassed(Halt):
    """Retention deleted the next offset."""

    code = "retention-passed"


class LogTruncated(Halt):
    """The topic ends before the next offset, or its leader epoch decreased."""

    code = "log-truncated"


class TopicRecreated(Halt):
    """The topic id changed."""

    code = "topic-recreated"


class StoreWiped(Halt):
    """Kafka has committed offsets that the store lacks."""

    code = "store-wiped"


class StoreSwapped(Halt):
    """Another store is at this address."""

    code = "store-swapped"


class StoreRewound(Halt):
    """The store lost acknowledged commits."""

    code = "store-rewound"


class ChangelogIncomplete(Halt):
    """An entry of the changelog is missing or cannot be read."""

    code = "changelog-incomplete"


class PartitionsChanged(Halt):
    """Partitions were added while groups are open, which might never end."""

    code = "partitions-changed"


class Unfetchable(Halt):
    """The next batch of records cannot be fetched: it ends each process that decompresses it, or cannot be
    decompressed."""

    code = "unfetchable"


class RewindMismatch(Halt):
    """The records that a deployment with `--open rewind` reads again differ from the records that were read before."""

    code = "rewind-mismatch"


class BufferFull(Halt):
    """A limit is reached and `on_full` is `stop`."""

    code = "buffer-full"


class HandlerStopped(Halt):
    """A handler failed its last attempt and `then` is `stop`."""

    code = "handler-stopped"


class DecodeStopped(Halt):
    """A record cannot be decoded and `on_error` is `stop`."""

    code = "decode-stopped"


class ExpressionStopped(Halt):
    """An expression fails on a record and `on_error` is `stop`."""

    code = "expression-stopped"


class ProduceStopped(Halt):
    """An output can never be sent and `on_error` is `stop`."""

    code = "produce-stopped"


class DeadLettersStopped(Halt):
    """More records became dead letters than `on_error.stop_above` allows."""

    code = "dead-letters-stopped"
