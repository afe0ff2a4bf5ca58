"""Facts about one partition beside its input, and comparisons of two rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.shadow.published import Published


class LiveGroup(NamedTuple):
    """A group that the store holds open."""

    first: int
    last: int
    records: int
    opened: float
    values: Mapping[str, object]


class Witness(NamedTuple):
    """The facts about one partition beside its input, which is read from `begin` up to `end`.

    `open` are the store's groups at its own offset `offset`. `latest` is its owner's time at the last commit that
    changed a group (None: unknown), `now` the store's time when they were read. `whole`: the agent began at `begin`.
    `letters_from`: dead letters of records before this offset may be gone. `origins` are the origins that windows over
    a re-keyed topic wait for. `restores`: the store is lost, and groups that the input leaves open are open.
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
    origins: Sequence[str] = ()
    restores: bool = False


class LiveSpans:
    """The first and last records of groups that were published, or that the store holds. `begins` are their keys by
    their first records."""

    def __init__(self, witness: Witness, windowed: bool) -> None:
        ended = {live.first: live.key for live in witness.published.results.values()}
        self.begins = ended | {group.first: key for key, group in witness.open.items()}
        self._open = frozenset(group.first for group in witness.open.values())
        self._known_ends = frozenset(self.begins if windowed else {*witness.published.ends(windowed), *self._open})
        self._reached = dict[int, int]()  # the last published record of each group
        for live in witness.published.results.values():
            self._reached[live.first] = max(live.last, self._reached.get(live.first, -1))

    def tells_end(self, first: int) -> bool:
        """Whether the group that begins with the record `first` has a last result, or is open: an early result tells no
        end."""
        return first in self._known_ends

    def reach(self, first: int, offset: int) -> bool:
        """Whether the group that begins with the record `first` certainly takes records at `offset`. After an early
        result it may have ended without another one."""
        return first in self._open or offset <= self._reached.get(first, -1)


class Codecs(NamedTuple):
    """The codecs of the agent. A message has at most `most` bytes."""

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
    """Whether each group that ends leaves a result, a dead letter, or a message of the history. For a window with a
    result at each record, the input shows the end."""
    rule = agent.aggregation
    if rule is not None and rule.window is not None and rule.window.windower.immediate:
        return True
    discards = rule is not None and rule.on_timeout == "discard" and rule.timed
    drops = bool(agent.routes) and agent.unrouted == "drop"
    silent = rule is not None and rule.emit is not None and not rule.emit.final
    return bool(agent.history) or not (agent.having or drops or discards or silent)


def _ends(agent: Agent) -> Agent:
    """The agent reduced to the keys that decide which records are taken and when a group ends."""
    rule = replace(agent.aggregation or Aggregation(), compute=(), on_timeout="fire", emit=None)
    return replace(
        agent, aggregation=rule, to=None, routes=(), unrouted="dead-letter", having="", delivery="at-least-once"
    )


def _key(agent: Agent) -> object:
    """The key, and the computed fields that it may use."""
    name = agent.aggregation.key if agent.aggregation else None
    named = any(definition.name == (name or "").partition(".")[0] for definition in agent.let)
    return name, agent.let if named else ()


def moments(witness: Witness) -> Iterator[tuple[int, float]]:
    for live in witness.published.results.values():
        if live.opened is not None:
            yield live.first, live.opened
        if live.closed is not None and live.natural:
            yield live.last, live.closed
    yield from ((group.first, group.opened) for group in witness.open.values())


def outside(dead: Sequence[bytes], unseen: bool = False) -> bool:
    """Whether the dead letter's reason lies outside of the record: a crash, a limit of the whole partition, or a time
    too far ahead of the owner's clock. `unseen`: it is also unknown which windows had closed, so a late record
    counts."""
    stage, reason = dead[:2]
    clock = (b"limit", b"time-ahead", b"late") if unseen else (b"limit", b"time-ahead")
    return stage == b"crash" or (stage == b"aggregate" and reason in clock)


def loses_records(agent: Agent) -> bool:
    """Whether a window that ended without a message decides where later records of it are, and no dead letter shows
    it."""
    window = agent.aggregation.window if agent.aggregation else None
    if window is None:
        return False
    by_silence = window.idle is not None and not window.windower.independent
    return window.at_most is not None or window.late != "dead-letter" or by_silence


def moved_the_watermark(dead: Sequence[bytes]) -> bool:
    """Whether a record of which `outside` is true was refused after the time of its origin was read."""
    return dead[0] == b"aggregate" and dead[1] == b"limit"


def judge_start(rule: Agent, witness: Witness, span: float) -> None:
    """Raises ConfigurationError where the effect of earlier records is unknown: the ids that dedupe remembers, the
    watermark, the keys of correlations that ended. `span` is in seconds."""
    aggregation = rule.aggregation or Aggregation()
    state = [("with dedupe", "the ids that were accepted before")] if rule.dedupe is not None else []
    state += [("with windows", "the records that moved the watermark before")] if aggregation.window is not None else []
    state += [("with correlate", "the keys that ended before")] if aggregation.correlation is not None else []
    state += [("over a table", "the rows that were added before")] if rule.over_table else []
    if state and not witness.whole:
        key, what = state[0]
        raise ConfigurationError(
            f"{key} a shadow must begin where the agent began, since {what} are not known: --from earliest, and an "
            "input that still holds its first record"
        )
    if rule.dedupe is not None and span >= rule.dedupe.horizon:
        raise ConfigurationError(
            f"the range spans {span:.0f} s, and dedupe forgets ids after {rule.dedupe.horizon:.0f} s: when each of "
            "them was forgotten is not known"
        )
    if aggregation.correlation is not None and span >= aggregation.correlation.remember > 0:
        raise ConfigurationError(
            f"the range spans {span:.0f} s, and keys that ended are remembered for "
            f"{aggregation.correlation.remember:.0f} s: when each of them was forgotten is not known"
        )
