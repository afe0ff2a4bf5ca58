"""The history of an agent (`history: TOPIC`): one message for each group that ends without a result.

A message has the headers of a result, and the fields that every result has: key, count, reason and the times. Each
group that goes to a handler has one, because no other message reports when it ended. Other groups have one if no other
message of the same commit reports their end: the group timed out and is discarded, `having` or the routes omitted its
result, or an operator or a deployment dropped it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import DROPPED, Event, Fire, GroupEnded, Unhandled
from sluicegate.streams.contracts.values import GroupNumber


def unreported(agent: Agent, events: Sequence[Event]) -> set[GroupNumber]:
    """The groups whose end is reported by none of these events."""
    if not agent.history:
        return set()
    ended = {event.fire.number for event in events if isinstance(event, GroupEnded)}
    return ended if agent.handler is not None else ended.difference(_reported(events))


def _reported(events: Iterable[Event]) -> Iterable[GroupNumber]:
    for event in events:
        if isinstance(event, Fire):
            yield event.number
        elif isinstance(event, Unhandled):
            yield event.fire.number


def with_history(agent: Agent, fire: Fire, events: Sequence[Event]) -> Sequence[Event]:
    """The events of a completed group with the events for the history, and without the call of a handler."""
    if not agent.history or fire.goes_on:
        return events
    others = events if agent.handler is None else [event for event in events if not isinstance(event, Fire)]
    return [*others, GroupEnded(replace(fire, values={}, outputs=None))]


def is_silent(agent: Agent, fire: Fire) -> bool:
    """Whether the completed group produces no event: it timed out and is discarded, or it was dropped."""
    return fire.reason == DROPPED or _times_out(agent, fire, "discard")


def is_letter(agent: Agent, fire: Fire) -> bool:
    """Whether the completed group is a dead letter because it timed out."""
    return _times_out(agent, fire, "dead-letter")


def _times_out(agent: Agent, fire: Fire, policy: str) -> bool:
    rule = agent.aggregation
    return fire.reason == "timeout" and rule is not None and rule.on_timeout == policy


def telling(agent: Agent) -> list[str]:
    """The topics whose messages report when groups ended and which records were refused. A handler's outputs do not."""
    results = [] if agent.handler is not None else [to.topic for to in agent.outputs]
    return list(dict.fromkeys([*results, *([agent.history] if agent.history else []), agent.dead_letters]))
