"""Items that the store keeps for a handler inside the commit: parked ones that an operator let go, and completed groups
whose dead letter an operator retried. The owner handles them when it claims, before the first record."""

from collections.abc import Sequence

from sluicegate.streams.agent import Handler
from sluicegate.streams.aggregation.entry import Section
from sluicegate.streams.aggregation.events import Event, Fire, KeptItem
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import HandlerStopped
from sluicegate.streams.handlers.attempts import bounds
from sluicegate.streams.handlers.failures import PARKED
from sluicegate.streams.handlers.handling import Handling, given_up, number_of
from sluicegate.streams.handlers.sealed import Sealed, kept
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.ownership.setting import AgentRuntime

ENDED = "the process ended while the handler was running, as many times as the handler has attempts"


def sealed_of(setting: AgentRuntime, place: TopicPartition) -> Sealed:
    """The items of a partition that the store keeps, with nothing in it yet."""
    handler = setting.agent.handler
    if setting.slow is not None:
        return setting.slow.sealed(place)
    if handler is None or not isinstance(setting.processor, Handling):
        return Sealed(place)
    return Sealed(place, bounds(handler.attempts), setting.processor.unsealed)


def ended(item: Message | Fire, handler: Handler) -> Event:
    """What becomes of an item that ended too many processes. Raises HandlerStopped."""
    if handler.then == "stop":
        raise HandlerStopped(f"{ENDED}, and `then` is stop; correct it, and restart")
    reason = PARKED if handler.then == "park" else "handler-failed"
    return given_up(item, reason, ENDED, "", handler.attempts)


def after(item: Message | Fire, events: Sequence[Event]) -> Section:
    """The changes of the store when this item was handled: it ended, unless it is parked again."""
    parked = any(isinstance(each, KeptItem) for each in events)
    return kept(events) if parked else Section({number_of(item): None})


def counted(events: Sequence[Event]) -> list[Event]:
    """The events that are counted: the group was, when it was completed."""
    return [event for event in events if not isinstance(event, Fire)]
