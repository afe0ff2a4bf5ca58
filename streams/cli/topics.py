"""`sluicegate topics`: lists the topics that a file needs, and creates the missing ones."""

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import typer

from sluicegate.streams import topic_names
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.terminal.outcome import DONE, SYSTEM
from sluicegate.streams.cli.terminal.output import print_json, print_table, print_text
from sluicegate.streams.cli.terminal.parameters import AsJson, FileArgument
from sluicegate.streams.hints import command

Roles = tuple[tuple[str, str], ...]
"""(role, agent); a role is input, table, output, history or dead letters."""


class Need(NamedTuple):
    """A topic and its uses."""

    topic: str
    roles: Roles


def written(agents: Iterable[Agent]) -> set[str]:
    """The topics that these agents write."""
    every = list(agents)
    outputs = {to.topic for agent in every for to in agent.outputs}
    return outputs | {topic for agent in every for topic in (agent.dead_letters, agent.history) if topic}


def needed(app: App) -> list[Need]:
    """Every topic of the file once, in the order of the file."""
    uses: dict[str, list[tuple[str, str]]] = {}
    for agent in app.agents:
        for topic in topic_names.topics(agent.topics):
            uses.setdefault(topic, []).append(("input", agent.name))
        for topic in agent.tables:
            uses.setdefault(topic, []).append(("table", agent.name))
        for to in agent.outputs:
            uses.setdefault(to.topic, []).append(("output", agent.name))
        if agent.history:
            uses.setdefault(agent.history, []).append(("history", agent.name))
        uses.setdefault(agent.dead_letters, []).append(("dead letters", agent.name))
    for schedule in app.schedules:
        uses.setdefault(schedule.topic, []).append(("output", f"schedule {schedule.name}"))
    return [Need(topic, tuple(roles)) for topic, roles in uses.items()]


def tables(app: App) -> set[str]:
    """The looked-up topics. They are created with compaction."""
    return {topic for agent in app.agents for topic in agent.tables}


def planned(app: App, there: Mapping[str, int | None], default: int) -> dict[str, int]:
    """The number of partitions of every topic. A missing topic gets as many as the largest input of the agents that
    write it, or `default`."""
    counts = {topic: count for topic, count in there.items() if count is not None}
    writers: dict[str, set[str]] = {}
    for agent in app.agents:
        for topic in written([agent]):
            writers.setdefault(topic, set()).update(topic_names.topics(agent.topics))
    open_ = [need.topic for need in needed(app) if need.topic not in counts]
    while open_:
        ready = next((t for t in open_ if all(source in counts for source in writers.get(t, ()))), open_[0])
        counts[ready] = max((counts.get(source, default) for source in writers.get(ready, ())), default=default)
        open_.remove(ready)
    return counts


def copartitioned(app: App, counts: Mapping[str, int]) -> dict[str, bool]:
    """For each agent with several inputs: whether they have the same number of partitions. Agents with `scope: shared`
    do not need that."""
    several = [agent for agent in app.agents if len(agent.topics) > 1 and agent.scope == "partition"]
    return {agent.name: len({counts[t] for t in topic_names.topics(agent.topics)}) == 1 for agent in several}


def topics(
    file: FileArgument,
    create: Annotated[
        bool, typer.Option("--create", help="Make the missing ones (replication: the brokers' default).")
    ] = False,
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="Partitions of an input topic that is made.")] = 4,
    json: AsJson = False,
) -> int:
    """List the topics that the file needs, their partitions, and which of them exist."""

    app = loaded(file)
    embedded = app.embedded
    there, created = ({}, []) if embedded else _look(app, create, partitions)
    wanted, matches = planned(app, there, partitions), _matches(app, embedded)
    if json:
        print_json({**_document(app, there, wanted, created), **({"matches": matches} if matches else {})})
    else:
        _print(app, there, wanted, created, embedded)
        for pattern, topics in matches.items():
            print_text(f"match {pattern} now: {', '.join(topics) or 'none'}")
    return DONE if embedded or all(there[need.topic] is not None for need in needed(app)) else SYSTEM


def _look(app: App, create: bool, partitions: int) -> tuple[dict[str, int | None], list[str]]:
    """The number of partitions of each topic, and the topics that were created."""
    from sluicegate.connectors.kafka import admin
    from sluicegate.streams.cli.opening.waiting import call_timeout, kafka_of, wait_for

    names = [need.topic for need in needed(app)]
    there = wait_for(
        app.start_timeout, lambda: admin.existing(app.brokers, names, call_timeout(app)), system=kafka_of(app)
    )
    if not create:
        return there, []
    wanted = planned(app, there, partitions)
    created = admin.create(app.brokers, {name: wanted[name] for name in names if there[name] is None}, tables(app))
    return {name: there[name] or wanted[name] for name in names}, created


def _matches(app: App, embedded: bool) -> dict[str, list[str]]:
    """By pattern, the topics that it matches now. Raises SystemNotReady."""
    from sluicegate.streams.cli.opening.matching import existing

    patterns = topic_names.patterns(dict.fromkeys(name for agent in app.agents for name in agent.topics))
    there = existing(app) if patterns and not embedded else []
    return {name.removeprefix(topic_names.MARK): topic_names.matching([name], there) for name in patterns}


def _shared(app: App) -> list[str]:
    return [agent.name for agent in app.agents if agent.scope == "shared"]


def _document(
    app: App, there: Mapping[str, int | None], wanted: Mapping[str, int], created: list[str]
) -> dict[str, object]:
    topics = [
        {
            "topic": need.topic,
            "roles": [{"role": role, "agent": agent} for role, agent in need.roles],
            "partitions": there.get(need.topic),
            "wanted": wanted[need.topic],
            "created": need.topic in created,
        }
        for need in needed(app)
    ]
    return {"topics": topics, "copartitioned": copartitioned(app, wanted), "shared": _shared(app)}


def _print(
    app: App, there: Mapping[str, int | None], wanted: Mapping[str, int], created: list[str], embedded: bool
) -> None:
    rows = []
    for topic, roles in needed(app):
        count = there.get(topic)
        state = (
            f"missing ({wanted[topic]} wanted)"
            if count is None
            else f"{count}{', created' if topic in created else ''}"
        )
        uses = ", ".join(f"{role} of {agent}" for role, agent in roles)
        rows.append((topic, uses, f"{wanted[topic]}, made by run" if embedded else state))
    print_table(("topic!", "use", "partitions"), rows)
    for agent, equal in copartitioned(app, wanted).items():
        numbers = "equally many" if equal else "different numbers of"
        print_text(f"{agent}: its inputs have {numbers} partitions; groups never span topics")
    for agent in _shared(app):
        print_text(f"{agent}: its groups span all partitions and topics (scope: shared), whatever their number")
    if not embedded and not all(there.values()):
        print(f"{command('topics FILE --create')} makes the missing ones")
