"""Finds partitions that are assigned to no worker of any run, for `/readyz`. The brokers know the assignments of a
consumer group; a worker knows only its own."""

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from sluicegate.connectors.kafka import admin
from sluicegate.connectors.kafka.admin import GroupAssignments
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.opening.waiting import call_timeout
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.observe.board import Board
from sluicegate.streams.topic_names import matching, of_input, on_cluster, patterns, plain

LOOK = 20.0
"""Seconds between two looks. A partition is told of at the second one: workers learn of added partitions within 10 s,
and a rebalance hands partitions over."""


@contextmanager
def watched(app: App, agents: Sequence[str], board: Board) -> Iterator[None]:
    """Reports such partitions of these agents to the board while the block runs."""
    if app.embedded:  # no other process can read them
        yield
        return
    stop = threading.Event()
    chosen = [agent for agent in app.agents if agent.name in agents]
    threading.Thread(target=_watch, args=(app, chosen, board, stop), name="unowned", daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def _watch(app: App, agents: Sequence[Agent], board: Board, stop: threading.Event) -> None:
    before: dict[str, set[TopicPartition]] = {}
    while not stop.wait(LOOK):
        for agent in agents:
            try:
                now = _look(app, agent)
            except SystemNotReady:
                continue  # workers report brokers that do not answer
            lasting = {place: why for place, why in now.items() if place in before.get(agent.name, ())}
            board.unowned(agent.name, [f"{topic}/{number}: {why}" for (topic, number), why in sorted(lasting.items())])
            before[agent.name] = set(now)


def _look(app: App, agent: Agent) -> dict[TopicPartition, str]:
    """Raises SystemNotReady."""
    timeout, cluster = call_timeout(app), of_input(agent.topics)
    named: Sequence[str] = agent.topics
    if patterns(named):
        every = admin.names(admin.open_admin(app.brokers.of(cluster)), timeout)
        named = matching(named, [on_cluster(topic, cluster) for topic in every])
    counts = admin.existing(app.brokers, named, timeout) if named else {}
    places = [(topic, number) for topic, count in counts.items() for number in range(count or 0)]
    own = [(plain(topic), number) for topic, number in places]
    assigned = admin.assignments(app.brokers.of(cluster), f"{app.name}.{agent.name}", timeout)
    return {(on_cluster(topic, cluster), n): why for (topic, n), why in unread(agent, own, assigned).items()}


def unread(
    agent: Agent, places: Collection[TopicPartition], assigned: GroupAssignments | None
) -> dict[TopicPartition, str]:
    """The reason why no worker reads these partitions. None: the group is in a rebalance, and the reason is unknown."""
    if assigned is None:
        return {}
    readers = {place: client for client, of in assigned for place in of}
    reasons = dict.fromkeys(
        set(places) - set(readers), "no worker is assigned; start one, or look at the log of its run"
    )
    for place, client in readers.items():
        if place in places and not client.startswith(f"{agent.name}-"):
            reasons[place] = f"is assigned to {client}, which is not a worker of this agent; end that consumer"
    return reasons
