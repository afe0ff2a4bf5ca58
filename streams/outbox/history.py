"""The history of an agent (`history: TOPIC`): one message for each group that ends and has no result.

A message has the headers of a result, and the fields that every result has: key, count, reason and the times. Groups
that go to a handler always have one, because nothing else tells when they ended. Other groups have one if nothing in
the same commit tells it: the group timed out and is discarded, `having` or the routes left its result out, or an
operator or a deployment dropped it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import DROPPED, Event, Fire, GroupEnded, Unhandled
from sluicegate.streams.contracts.values import GroupNumber


def untold(agent: Agent, events: Sequence[Event]) -> set[GroupNumber]:
    """The groups of which none of these events tells that they ended."""
    if not agent.history:
        return set()
    ended = {event.fire.number for event in events if isinstance(event, GroupEnded)}
    return ended if agent.handler is not None else ended.difference(_told(events))


def _told(events: Iterable[Event]) -> Iterable[GroupNumber]:
    for event in events:
        if isinstance(event, Fire):
            yield event.number
        elif isinstance(event, Unhandled):
            yield event.fire.number


def with_history(agent: Agent, fire: Fire, events: Sequence[Event]) -> Sequence[Event]:
    """These events of a completed group, without the call of a handler and with what the history notes."""
    if not agent.history or fire.goes_on:
        return events
    others = events if agent.handler is None else [event for event in events if not isinstance(event, Fire)]
    return [*others, GroupEnded(replace(fire, values={}, outputs=None))]


def is_silent(agent: Agent, fire: Fire) -> bool:
    """Whether nothing is decided about the completed group: it timed out and is discarded, or it was dropped."""
    return fire.reason == DROPPED or _times_out(agent, fire, "discard")


def is_letter(agent: Agent, fire: Fire) -> bool:
    """Whether the completed group is a dead letter, because it timed out."""
    return _times_out(agent, fire, "dead-letter")


def _times_out(agent: Agent, fire: Fire, policy: str) -> bool:
    rule = agent.aggregation
    return fire.reason == "timeout" and rule is not None and rule.on_timeout == policy


def telling(agent: Agent) -> list[str]:
    """The topics whose messages tell when groups ended, and which records were refused. A handler's outputs do not."""
    results = [] if agent.handler is not None else [to.topic for to in agent.outputs]
    return list(dict.fromkeys([*results, *([agent.history] if agent.history else []), agent.dead_letters]))
