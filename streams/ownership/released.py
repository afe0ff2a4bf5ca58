"""Handles released items: parked items that an operator released, and completed groups whose dead letter an operator
retried. The store keeps them, and the owner handles them at its claim, before the first record."""

from collections.abc import Sequence

from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import Event, Fire, KeptItem, Unhandled
from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import HandlerStopped
from sluicegate.streams.handlers.attempts import bounds
from sluicegate.streams.handlers.failures import PARKED, GivenUp
from sluicegate.streams.handlers.handling import Handling, given_up, number_of
from sluicegate.streams.handlers.packing import pack
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.handlers.sealed import Sealed, kept
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.ownership.setting import AgentRuntime

ENDED = "the process ended while the handler was running, as many times as the handler has attempts"
ENDED_HERE = "the process ended three times while it decided what happens to the retried group"


def sealed_of(setting: AgentRuntime, place: TopicPartition) -> Sealed:
    """The empty container for the sealed items of a partition."""
    handler = setting.agent.handler
    if setting.slow is not None:
        return setting.slow.sealed(place)
    if handler is None or not isinstance(setting.processor, Handling):
        return Sealed(place)
    return Sealed(place, bounds(handler.attempts), setting.processor.unsealed)


def sealed_again(items: Sequence[Item]) -> Section | None:
    """The changes of the store for a retried group that now waits for its slow handler. None: it became a dead letter,
    or nothing."""
    if not items or not isinstance(items[0], Fire):
        return None
    return Section({items[0].number: pack(items[0])}, {items[0].number: 0})


def ended(item: Message | Fire, handler: Handler | None) -> Event:
    """The outcome of an item that ended too many processes. Raises HandlerStopped."""
    if isinstance(item, Fire) and (handler is None or item.again is not None):
        return Unhandled(item, ENDED_HERE, DEATHS, "crash", stage="crash")
    assert handler is not None
    if handler.then == "stop":
        raise HandlerStopped(f"{ENDED}, and `then` is stop; correct it, and restart")
    reason = PARKED if handler.then == "park" else "handler-failed"
    return given_up(item, GivenUp(reason, ENDED), handler.attempts)


def after(item: Message | Fire, events: Sequence[Event]) -> Section:
    """The changes of the store after this item was handled: it ended, unless it is parked again."""
    parked = any(isinstance(event, KeptItem) for event in events)
    return kept(events) if parked else Section({number_of(item): None})


def counted(events: Sequence[Event]) -> list[Event]:
    """The events to count in the metrics. The group itself was counted when it was completed."""
    return [event for event in events if not isinstance(event, Fire)]
