"""Checks an agent that reads change events (`envelope: debezium`): keys that it needs, and keys that have no effect."""

import re
from collections.abc import Iterator
from dataclasses import replace

from sluicegate.streams import agent as run
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import Aggregate
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.keys import DROP, FINISH, FLUSH
from sluicegate.streams.reducers import ENTRIES, REDUCERS

DEBEZIUM = "debezium"
ENDS = {
    **dict.fromkeys(("count", "until", "timeout", "debounce", "window")),
    "max_items": run.Aggregation().max_items,
    "on_timeout": "fire",
}
"""Keys of `aggregate` that end a group with rows, and their defaults."""
_SIDE = re.compile(r"\b(?:before|after)\s*\.")
_MESSAGE = re.compile(r"\bmessage\b")


def reads_changes(agent: AgentModel) -> bool:
    """Whether a topic of the agent has change events."""
    return any(source.envelope == DEBEZIUM for source in agent.from_)


def findings(agent: AgentModel, path: Path) -> Iterator[FileFinding]:
    envelopes = {source.envelope or "" for reader in agent.readers.values() for source in reader.from_}
    if DEBEZIUM not in envelopes:
        return
    source = (*path, "from")
    if agent.correlate is not None:
        for place, reader in agent.readers.items():
            if any(source.envelope == DEBEZIUM for source in reader.from_):
                what = "has change events, which take rows back; a leg has messages, and none is ever taken back"
                at = (*path, *place, "from")
                yield FileFinding(at, what, "let a forwarder write the rows to a topic of their own", (at,))
        return
    if len(envelopes) > 1:
        what = "has topics with change events and others without: an agent reads one kind"
        yield FileFinding(source, what, "let an agent of its own read the others", (source,))
    if agent.aggregate is None:
        if agent.repartition is not None:
            what = "has no meaning without an aggregation: a handler gets every message"
            needs = ((*path, "repartition"), source, (*path, "aggregate"))
            yield FileFinding(needs[0], what, "leave it out, or add an aggregate", needs)
        return
    yield from _of_groups(agent, agent.aggregate, path)
    yield from _of_rows(agent, agent.aggregate, path)


def _of_groups(agent: AgentModel, rule: Aggregate, path: Path) -> Iterator[FileFinding]:
    """Keys that the groups of a table need, and keys that would end them too early."""
    source, aggregate = (*path, "from"), (*path, "aggregate")
    if agent.repartition is None or agent.key is None:
        what = "has change events: the rows of a group lie in several partitions, and a change moves a row to another"
        hint = "write key: FIELD OF THE ROW and repartition: TOPIC"
        yield FileFinding(source, what, hint, (source, (*path, "repartition"), (*path, "key"), aggregate))
    if agent.emit is None:
        what = "is missing: a group of a table goes on while it has rows, so its results are early ones"
        yield FileFinding((*path, "emit"), what, "write emit: {on: change} or {every: 10s}", (path, source))
    if agent.scope == "shared":
        needs = ((*path, "scope"), source)
        what = "does not go together with a table: no worker reads a shared group at each of its records"
        yield FileFinding(needs[0], what, "leave it out: the rows of a group are in one partition", needs)
    for name, usual in ENDS.items():
        if getattr(rule, name) not in (None, usual):
            what = "would end a group that has rows, and a later change could not take them back"
            needs = ((*aggregate, name), source)
            yield FileFinding(needs[0], what, "leave it out: a group of a table ends with its last row", needs)
    if "on_full" in rule.model_fields_set and rule.on_full != "stop":
        needs = ((*aggregate, "on_full"), source)
        what = "must be stop for a table: a group that leaves some rows out is wrong for ever"
        yield FileFinding(needs[0], what, "leave it out", needs)
    if agent.on_change in (FINISH, FLUSH, DROP):
        needs = ((*path, "on_change"), source)
        what = "must be convert for a table: each row is added once, so no group ends or begins anew with a change"
        yield FileFinding(needs[0], what, "write convert or refuse, or leave it out", needs)
    if agent.dedupe is not None:
        needs = ((*path, "dedupe"), source)
        what = "is not needed for change events: the row of each key is known, so a repeat changes nothing"
        yield FileFinding(needs[0], what, "leave it out", needs)


def _of_rows(agent: AgentModel, rule: Aggregate, path: Path) -> Iterator[FileFinding]:
    """Reducers that cannot be computed over rows."""
    source = (*path, "from")
    for name, reducer in rule.compute.items():
        if REDUCERS[reducer.kind].of_rows is None:
            at = (*path, "aggregate", "compute", name)
            can = ", ".join(entry.name for entry in ENTRIES if entry.of_rows is not None)
            what = f"is computed by {reducer.kind}, which cannot take a row back"
            yield FileFinding(at, what, f"use one of {can}", (at, source))
    texts: dict[Path, str | None] = {(*path, "let", name): text for name, text in (agent.let or {}).items()}
    texts |= {(*path, "where"): agent.where or None, (*path, "key"): agent.key.field if agent.key else None}
    texts |= {(*path, "aggregate", "compute", name): reducer.field for name, reducer in rule.compute.items()}
    for at, text in texts.items():
        if isinstance(text, str) and _SIDE.search(text):
            what = "names before or after, but a group has rows, each of which is added and taken back"
            yield FileFinding(at, what, "write the field of the row alone, such as amount", (at, source))
        elif isinstance(text, str) and at[2] == "let" and _MESSAGE.search(text):
            what = "names message, but a row is taken back by another message than the one that added it"
            yield FileFinding(at, what, "ask for fields of the row", (at, source))


def halves(agent: run.Agent, name: str, through: str, key: str) -> list[run.Agent]:
    """Two agents. The one with this name keeps the rows, and re-keys to the topic `through`; the other one is the agent
    itself. Both halt when they are full, and when Kafka refuses a change, because a missing row would make results
    wrong for ever."""
    rule = agent.aggregation or run.Aggregation()
    on_missing = "dead-letter" if rule.on_missing == "ignore" else rule.on_missing
    limits = {name: getattr(rule, name) for name in ("max_groups", "hot_groups", "max_bytes", "max_buffered_bytes")}
    aggregation = run.Aggregation(on_null=rule.on_null, on_missing=on_missing, on_full="stop", **limits)
    to, on_error = run.Destination(through, "raw"), replace(agent.on_error, produce="stop")
    first = replace(agent, name=name, aggregation=aggregation, key=key, to=to, on_error=on_error, rekeys=agent.name)
    first = replace(first, dedupe=None, having="", history="", handler=None, routes=(), lookups=())
    second = replace(agent, topics=(through,), receive=(through,), changes=(), start="earliest", where="")
    groups = replace(rule, key=None, table=True, on_full="stop")
    return [first, replace(second, aggregation=groups, format="json", schema=None)]
