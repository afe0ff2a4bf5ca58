"""Finds the agents that a shadow cannot judge, with the reason."""

import re
from collections.abc import Callable
from dataclasses import replace

import msgspec

from sluicegate.schemas import codec
from sluicegate.schemas.codecs import as_json
from sluicegate.schemas.event_codec import of_events
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Destination
from sluicegate.streams.outbox.rows import letters_codec

TIMES = re.compile(r"\b(?:opened_at|closed_at)\b")


def unshadowable(agent: Agent, calls: bool = False) -> str | None:
    """The reason why the topics do not show what this agent did. None: they show it. `calls`: its handler is called."""
    rule = agent.aggregation
    if agent.rekeys:
        return None
    if agent.forwards:
        return "it adds rows of the store (lookup) to records, which may have changed since" if agent.lookups else None
    if agent.handler is not None and not agent.history:
        functions = ", ".join(agent.handler.functions)
        if calls and rule is None:
            return f"the handler {functions} gets single messages, and only a handler of groups is called again"
        if calls:
            return f"nothing tells which groups went to the handler {functions}: it needs the key `history`"
        return f"its results go to the handler {functions}, which is not called here: what it sends cannot be compared"
    if rule is None:
        return "it has no aggregation, so there is nothing to compare"
    if agent.lookups and any(to.select for to in agent.outputs):
        return "its results do not hold the whole rows that were looked up (select), which may have changed since"
    if agent.lookups and calls:
        return "its handler gets rows of the store (lookup), which may have changed since"
    if agent.scope == "shared":
        return "its groups span partitions (scope: shared)"
    if calls and (why := _uncallable(agent)):
        return why
    if agent.handler is None and _times_missing(agent):
        return "an expression of its results asks for opened_at or closed_at, which `select` leaves out of the results"
    return None


def _uncallable(agent: Agent) -> str | None:
    """The reason why a replay cannot call the handler of this agent."""
    handler = agent.handler
    if handler is None:
        return "it has no handler that --call-handlers could call"
    functions = ", ".join(handler.functions)
    if handler.session:
        return f"the handler {functions} has session: true, so it would write to the store again"
    if handler.concurrency:
        return f"the handler {functions} has concurrency: which of the groups that ended it has handled is not known"
    return None


def timed_topics(agent: Agent) -> dict[str, Callable[[bytes], bytes]]:
    """The topics whose documents hold the times of a group as the engine wrote them. By topic, a function that gives
    their values as JSON."""
    read = {to.topic: _document(agent, to) for to in agent.outputs if _keeps_times(agent, to.topic)}
    if agent.dead_letters not in {to.topic for to in agent.outputs}:
        read[agent.dead_letters] = as_json(letters_codec(agent, formats.writes(agent)))
    return read | ({agent.history: as_json(codec("json"))} if agent.history else {})


def _document(agent: Agent, to: Destination) -> Callable[[bytes], bytes]:
    written = codec("json") if agent.handler is not None else formats.writes(replace(agent, to=to))
    if to.envelope is None or to.envelope.mode == "binary":
        return as_json(written)
    text = as_json(of_events(written))
    return lambda value: bytes(_event(text(value)).data)


class _Event(msgspec.Struct):
    """A CloudEvent in structured mode."""

    data: msgspec.Raw


_event = msgspec.json.Decoder(_Event).decode


def _keeps_times(agent: Agent, topic: str) -> bool:
    chosen = [{field.name for field in to.select if not field.expression} for to in agent.outputs if to.topic == topic]
    whole = [not to.select for to in agent.outputs if to.topic == topic]
    return all(all_of or {"opened_at", "closed_at"} <= names for all_of, names in zip(whole, chosen, strict=True))


def _times_missing(agent: Agent) -> bool:
    expressions = [agent.having, *(to.where for to in agent.outputs)]
    expressions += [field.expression for to in agent.outputs for field in to.select]
    return any(map(TIMES.search, expressions)) and not all(_keeps_times(agent, to.topic) for to in agent.outputs)
