"""The error tree. Each class is one reaction of the loop.

SluicegateError
├── ConfigurationError       the file or the call is wrong: exit 2
├── SystemNotReady           a system is away, unmigrated or too weak, or lacks a topic: exit 3
│   ├── TopicMissing         Kafka answers that there is no such topic
│   ├── NotPermitted         Kafka answers that our user lacks a right: exit at the start, an outage later
│   └── NotAuthenticated     a certificate or a password is refused (also a PersistenceError): not tried again
├── Fenced                   another claim exists: drop the state, claim again with back-off while assigned
├── PersistenceError         the store failed, the outcome is unknown: the same way back as Fenced
│   └── NotCommitted         the store refused the transaction: nothing of it remains
├── ConcurrencyError         a lease of a row or lane was lost, or the row is gone: nothing was changed
│   ├── WatermarkMoved       another worker inserted from this partition: read again from the watermark
│   └── AggregationNotFound  the buffer has no rows (also a KeyNotFoundError)
├── KeyNotFoundError         there is nothing of that name
├── HandlerFailed            a handler raised and may be called again: the same way back, after its own back-off
├── DecodeWaits              a record cannot be decoded and the file says `wait`: its partition's intake pauses
└── Halt                     going on would lose or repeat records silently: this partition stops, the others go on
    ├── RetentionPassed      the topic no longer holds the next offset
    ├── LogTruncated         the topic ends before the next offset, or its leader epoch went back
    ├── TopicRecreated       the topic has another topic id
    ├── StoreWiped           Kafka knows of commits that the store does not have
    ├── StoreSwapped         the store at this address is another one
    ├── StoreRewound         the store is behind what it had acknowledged
    ├── ChangelogIncomplete  an entry is missing or cannot be read
    ├── PartitionsChanged    partitions were added, and open groups could never end
    ├── BufferFull           a limit is reached and the file says `stop`
    ├── DecodeStopped        a record cannot be decoded and the file says `stop`
    ├── ExpressionStopped    an expression fails on a record and the file says `stop`
    ├── ProduceStopped       an output can never be sent and the file says `stop`
    └── HandlerStopped       a handler failed for good and the file says `stop`
"""

from typing import TypeVar


class SluicegateError(Exception):
    """The root: whatever we raise on purpose."""

    permanent = False
    """Must a person change something before the same call can succeed? A command then ends at its start instead of
    waiting. A process that has reached the system before treats the error as an outage."""


E = TypeVar("E", bound=SluicegateError)


def permanent(error: E) -> E:
    """The error, marked as permanent."""
    error.permanent = True
    return error


class ConfigurationError(SluicegateError):
    """The file, or a call, asks for something that cannot be."""


class SystemNotReady(SluicegateError):
    """A system cannot be reached, is unmigrated, gives too weak a level, or lacks a topic."""


class TopicMissing(SystemNotReady):
    """Kafka answers that there is no such topic."""


class NotPermitted(SystemNotReady):
    """Our user lacks a right that somebody must grant: at the start the command ends; later it is waited for."""

    permanent = True


class Fenced(SluicegateError):
    """A newer claim exists: nothing was changed by this commit."""


class PersistenceError(SluicegateError):
    """The store failed or its reply was lost: whether the commit landed, the next claim will show. The driver's error
    is the cause."""


class NotAuthenticated(PersistenceError, SystemNotReady):
    """A certificate or a password was refused, by us or by the other side. The same try would be refused again: at the
    start the command ends, later the process, which is started with what the file's secrets are then."""

    permanent = True


class NotCommitted(PersistenceError):
    """The store refused the transaction as a whole at its commit: certainly nothing of it remains."""


class ConcurrencyError(SluicegateError):
    """What the call rests on is not so any more: a lease that is over or another's, a row that is gone. Nothing was
    changed."""


class WatermarkMoved(ConcurrencyError):
    """The source watermark is not where the caller expected it; `next` is where it stands."""

    def __init__(self, text: str, next: int) -> None:
        super().__init__(text)
        self.next = next


class KeyNotFoundError(SluicegateError):
    """There is nothing of that name."""


class AggregationNotFound(KeyNotFoundError, ConcurrencyError):
    """The buffer has no rows at all: the key is missing, and a row was not located."""


class HandlerFailed(SluicegateError):
    """What was handed to it was rolled back and is handed to it again after `delay` seconds."""

    def __init__(self, text: str, delay: float) -> None:
        super().__init__(text)
        self.delay = delay


class DecodeWaits(SluicegateError):
    """The record at `offset` cannot be decoded now, and may be later."""

    def __init__(self, text: str, offset: int) -> None:
        super().__init__(text)
        self.offset = offset


class Halt(SluicegateError):
    """The partition must not go on by itself; `code` is its stable name in logs, health and status."""

    code = "halted"


class RetentionPassed(Halt):
    code = "retention-passed"


class LogTruncated(Halt):
    code = "log-truncated"


class TopicRecreated(Halt):
    code = "topic-recreated"


class StoreWiped(Halt):
    code = "store-wiped"


class StoreSwapped(Halt):
    code = "store-swapped"


class StoreRewound(Halt):
    code = "store-rewound"


class ChangelogIncomplete(Halt):
    code = "changelog-incomplete"


class PartitionsChanged(Halt):
    code = "partitions-changed"


class BufferFull(Halt):
    code = "buffer-full"


class HandlerStopped(Halt):
    code = "handler-stopped"


class DecodeStopped(Halt):
    code = "decode-stopped"


class ExpressionStopped(Halt):
    code = "expression-stopped"


class ProduceStopped(Halt):
    code = "produce-stopped"
