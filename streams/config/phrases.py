"""Describes an agent's expressions, one sentence for each."""

import re
from collections.abc import Sequence

from sluicegate.streams.agent import Agent, Destination, Lookup
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.words import in_words, normal
from sluicegate.streams.units import spoken_duration

_GROUP = re.compile(r"""("(?:\\.|[^"\\])*")|(?<![.\w])group\.""")
"""A text literal, which stays as it is, or the name before a value of the group."""


def of_records(agent: Agent) -> list[str]:
    """`takes only records where status is "paid"; leaves out and counts the others`"""
    sentences = [f"computes {definition.name} = {normal(parse(definition.expression))}" for definition in agent.let]
    if agent.where:
        sentences.append(f"takes only records where {condition(agent.where)}; leaves out and counts the others")
    return sentences


def of_lookups(agent: Agent) -> list[str]:
    """`adds to each message customer (name) of the row of customers whose id is its customer_id, ...`"""
    what = "message" if agent.aggregation is None else "result"
    apart = agent.handler is not None and agent.handler.concurrency > 0
    return [
        _lookup(lookup, what, "when its call begins" if apart else "in the transaction of the commit")
        for lookup in agent.lookups
    ]


def _lookup(lookup: Lookup, what: str, moment: str) -> str:
    key = normal(parse(lookup.key))
    where = f"the row of {lookup.source} whose {lookup.column} is its {key}"
    if lookup.kind == "hash":
        where = f"the hash {lookup.source}, with its {key} as the key"
    read = f"read {moment}"
    if lookup.kind == "topic":
        where = f"the newest record of {lookup.source} whose key is its {key}"
        read = "as far as this process has read that topic"
    kept = ", until which the row cannot change" if lookup.lock else ""
    without = {
        "null": f"{lookup.name} is null",
        "dead-letter": "it is a dead letter",
        "wait": f"the partition waits for it up to {spoken_duration(lookup.wait)}, then it is a dead letter",
    }
    return (
        f"adds to each {what} {lookup.name} ({', '.join(lookup.fields)}) of {where}, {read}{kept}; "
        f"without one {without[lookup.missing]}"
    )


def of_results(agent: Agent) -> list[str]:
    """`sends a result only where spent is at least 1000`, and the destination of each. With a handler, its messages are
    described after its call."""
    done = "calls the handler" if agent.handler is not None else "sends a result"
    sentences = [f"{done} only where {condition(agent.having)}"] if agent.having else []
    if agent.handler is not None:
        return sentences
    return sentences + of_outputs(agent)


def of_outputs(agent: Agent) -> list[str]:
    """The destination of each result, forwarded record or sent value, if clauses under `to` decide it."""
    sentences: list[str] = []
    if agent.routes:
        sentences += [f"route {number + 1}: {_route(agent, route)}" for number, route in enumerate(agent.routes)]
        lost = "leaves out and counts" if agent.unrouted == "drop" else "makes a dead letter of"
        if all(route.where or route.goes_on for route in agent.routes):
            sentences.append(f"{lost} what no route takes")
    elif agent.to is not None and agent.forwards:
        sentences.append(_route(agent, agent.to))
    elif agent.to is not None and agent.to.select:
        sentences.append(f"writes {_listed(agent.to)} to {agent.to.topic} as {agent.to.format}")
    return sentences


def unanswered(agent: Agent) -> list[str]:
    """The fate of a record for which an expression has no answer."""
    says = {
        "skip": "leaves out, and counts, records for which an expression has no answer",
        "stop": "stops the partition at a record for which an expression has no answer",
    }
    return [says[agent.on_error.expression]] if agent.on_error.expression in says else []


def condition(text: str) -> str:
    """The condition as a phrase, or the expression itself where it has no short phrase."""
    node = parse(text)
    return in_words(node) or f"`{normal(node)}`"


def of_group(until: str) -> str:
    """`its weight is at least 500`"""
    phrase = in_words(parse(until))
    return _GROUP.sub(lambda match: match[1] or "its ", phrase) if phrase else condition(until)


def _route(agent: Agent, to: Destination) -> str:
    what = f"writes {_listed(to) if to.select else 'what it takes'} to {to.topic} as {to.format}"
    if agent.forwards_unchanged(to):
        what = f"forwards the record {'with its rows' if agent.lookups else 'unchanged'} to {to.topic}"
    what += f" under its {agent.key} as the key" if agent.key else ""
    where = f" where {condition(to.where)}" if to.where else ""
    after = ", and asks the next route, too" if to.goes_on else ""
    return f"{what}{where}{after}"


def _listed(to: Destination) -> str:
    names: Sequence[str] = [
        f"{field.name} = {normal(parse(field.expression))}" if field.expression else field.name for field in to.select
    ]
    return ", ".join(names)
