"""Checks whether `dedupe` remembers enough ids, and for long enough, for repeats that its input topics can bring."""

from collections.abc import Mapping, Sequence
from math import inf

from sluicegate.connectors.kafka import admin, ends
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.units import spoken_duration

LATER_DUPLICATES = (
    "a duplicate that is written later counts again: a horizon as long as the topic's retention prevents it"
)


def findings(
    app: App, agents: Sequence[Agent], there: Mapping[str, int | None], now: float, timeout: float
) -> list[SystemFinding]:
    """`there` is the number of partitions of each topic, `now` seconds since 1970. Raises SystemNotReady."""
    deduped = [(agent, topic) for agent in agents for topic in agent.topics if agent.dedupe and there.get(topic)]
    if not deduped:
        return []
    retentions = admin.retention(app.brokers, sorted({topic for _, topic in deduped}), timeout)
    problems = []
    for agent, topic in deduped:
        horizon = agent.dedupe.horizon if agent.dedupe else 0.0
        places = [(topic, number) for number in range(there[topic] or 0)]
        busiest = max(ends.since(app.brokers, places, now - horizon, timeout).values(), default=0)
        problems += [outlived(agent, topic, retentions[topic]), crowded(agent, topic, busiest)]
    return problems


def outlived(agent: Agent, topic: str, kept: float | None) -> SystemFinding:
    """Whether the topic keeps records longer than the agent remembers their ids. `kept` is in seconds; None:
    unknown."""
    horizon = agent.dedupe.horizon if agent.dedupe else inf
    words = "for an unknown time" if kept is None else "for ever" if kept == inf else f"for {spoken_duration(kept)}"
    text = f"topic {topic} keeps records {words}, {agent.name} remembers their ids for {spoken_duration(horizon)}"
    return SystemFinding("kafka", True, text, LATER_DUPLICATES if kept is None or horizon < kept else "")


def crowded(agent: Agent, topic: str, busiest: int) -> SystemFinding:
    """Whether a partition gets more records within the horizon than the agent remembers ids. `busiest` is the largest
    number of records of a partition."""
    dedupe = agent.dedupe
    most, horizon = (dedupe.max_ids, dedupe.horizon) if dedupe else (0, 0.0)
    text = (
        f"topic {topic} got up to {busiest} records in a partition within {spoken_duration(horizon)}, "
        f"{agent.name} remembers {most} ids"
    )
    hint = (
        f"ids are forgotten before their horizon: write max_ids: {2 * busiest} (128 bytes each), or a shorter horizon"
    )
    return SystemFinding("kafka", True, text, hint if busiest > most else "")
