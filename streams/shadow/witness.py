"""What is known of one partition beside its input, and what two rules have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.shadow.published import Published


class LiveGroup(NamedTuple):
    """A group that the store holds open."""

    first: int
    last: int
    records: int
    opened: float
    values: Mapping[str, object]


class Witness(NamedTuple):
    """What is known of one partition beside its input, which is read from `begin` up to `end`.

    `open` are the store's groups at its own offset `offset`, `latest` its owner's time at the last commit that changed
    one (None: unknown), `now` the store's time when they were read. `whole`: the agent began at `begin`.
    `letters_from`: dead letters of earlier records may be gone.
    """

    published: Published
    topic_id: str
    begin: int
    end: int
    offset: int
    open: Mapping[bytes, LiveGroup]
    latest: float | None = None
    now: float = inf
    whole: bool = False
    letters_from: float = -inf


class Codecs(NamedTuple):
    """`most` bytes may be in a message."""

    reads: Codec
    writes: Codec
    most: int


def same_ends(rule: Agent, live: Agent) -> bool:
    """Whether both rules take the same records into the same groups. Contents and outputs may differ."""
    return _ends(rule) == _ends(live)


def same_key(rule: Agent, live: Agent) -> bool:
    """Whether both rules group by the same key."""
    return _key(rule) == _key(live)


def leaves_traces(agent: Agent) -> bool:
    """Whether each group that ends leaves a result, a dead letter, or a message of the history."""
    return bool(agent.history) or (not agent.having and not (agent.routes and agent.unrouted == "drop"))


def _ends(agent: Agent) -> Agent:
    """The rule without what decides neither which records are taken nor when a group ends."""
    rule = replace(agent.aggregation or Aggregation(), compute=(), on_timeout="fire")
    return replace(
        agent, aggregation=rule, to=None, routes=(), unrouted="dead-letter", having="", delivery="at-least-once"
    )


def _key(agent: Agent) -> object:
    """The key, and the computed fields that it may name."""
    name = agent.aggregation.key if agent.aggregation else None
    named = any(each.name == (name or "").partition(".")[0] for each in agent.let)
    return name, agent.let if named else ()


def crossing(witness: Witness) -> set[bytes]:
    """The keys that have a group which began before the range and goes on in it."""
    begin = witness.begin
    ended = {live.key for live in witness.published.results.values() if live.first < begin <= live.last}
    return ended | {key for key, group in witness.open.items() if group.first < begin}


def leaving(witness: Witness) -> frozenset[int]:
    """The first records of the groups that begin in the range and go on behind it."""
    begin, end = witness.begin, witness.end
    ended = {live.first for live in witness.published.results.values() if begin <= live.first < end <= live.last}
    return frozenset(ended | {group.first for group in witness.open.values() if begin <= group.first < end})


def moments(witness: Witness) -> Iterator[tuple[int, float]]:
    for live in witness.published.results.values():
        if live.opened is not None:
            yield live.first, live.opened
        if live.closed is not None and live.natural:
            yield live.last, live.closed
    yield from ((group.first, group.opened) for group in witness.open.values())


def outside(dead: Sequence[bytes]) -> bool:
    """Whether the reason of this dead letter is outside of the record: a crash, or a limit of the whole partition."""
    stage, reason = dead[:2]
    return stage == b"crash" or (stage, reason) == (b"aggregate", b"limit")
