"""Agents that read their own outputs, also through other agents: a warning, and a problem where no record ever leaves
the circle."""

from collections.abc import Callable, Iterator, Sequence

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.config.text.problems import FileFinding, Path

Writes = Callable[[Agent], set[str]]


def endless(app: App) -> Iterator[FileFinding]:
    """Circles of agents that forward every record. Each record would come again for ever, and faster and faster."""
    for agent, through in _circles(app, _certain_topics):
        path = _place(agent)
        way = _route_text(through)
        what = f"comes back to this agent {way}, and no agent leaves a record out: each would come for ever"
        yield FileFinding(path, what, "write to another topic, or end the circle with a where", (path,))


def warnings(app: App) -> Iterator[FileFinding]:
    for agent, through in _circles(app, _possible_topics):
        path = _place(agent)
        yield FileFinding(
            path, f"comes back to this agent {_route_text(through)}", "make sure that the circle ends", (path,)
        )


def _possible_topics(agent: Agent) -> set[str]:
    """The topics to which the agent may write results."""
    return {output.topic for output in agent.outputs}


def _certain_topics(agent: Agent) -> set[str]:
    """The topics that get every record of the agent."""
    if not agent.forwards or agent.where or agent.lookups:
        return set()
    topics = set[str]()
    for output in agent.outputs:
        if not output.where:
            topics.add(output.topic)
        if not output.goes_on:
            break
    return topics


def _circles(app: App, writes: Writes) -> Iterator[tuple[Agent, Sequence[Agent]]]:
    """Each agent in a circle, with the other agents of its shortest circle."""
    nexts = {one.name: [other for other in app.agents if writes(one) & {*other.topics}] for one in app.agents}
    for agent in app.agents:
        ways: list[list[Agent]] = [[reader] for reader in nexts[agent.name]]
        seen = {way[0].name for way in ways}
        for way in ways:  # it grows
            if way[-1].name == agent.name:
                yield agent, way[:-1]
                break
            for reader in nexts[way[-1].name]:
                if reader.name not in seen:
                    seen.add(reader.name)
                    ways.append([*way, reader])


def _route_text(through: Sequence[Agent]) -> str:
    return f"through {', '.join(agent.name for agent in through)}" if through else "directly"


def _place(agent: Agent) -> Path:
    if agent.rekeys:
        return ("agents", agent.rekeys)
    return ("agents", agent.name, "to") if agent.routes else ("agents", agent.name, "to", "topic")
