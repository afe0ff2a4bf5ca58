"""The topics that a file writes: results, dead letters, histories, its internal topics, and messages of `schedules`."""

from collections.abc import Iterator
from typing import NamedTuple

from sluicegate.streams.config.sections.dead_letters import DeadLettersModel
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.text.problems import Path


class TopicUse(NamedTuple):
    """A topic, how the file uses it, the keys that cause this, and the agent that writes it; empty for a schedule."""

    topic: str
    what: str
    path: Path
    agent: str = ""


def uses(file: FileModel) -> Iterator[TopicUse]:
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        for at, to in agent.outputs.items():
            yield TopicUse(to.topic, f"agent {name} writes its results to", (*path, *at, "topic"), name)
        own = agent.dead_letters is not None and agent.dead_letters.topic is not None
        at_letters: Path = (*path, "dead_letters") if own else ("dead_letters",) if _named(file) else ("app",)
        yield TopicUse(dead_letters(file, agent), f"dead letters of agent {name} go to", at_letters, name)
        if agent.history:
            yield TopicUse(agent.history, f"agent {name} writes its history to", (*path, "history"), name)
        if agent.repartition is not None:
            yield TopicUse(agent.repartition, f"agent {name} re-keys to", (*path, "repartition"), name)
        if agent.correlate is not None:
            through, what = agent.correlate.topic(file.app, name), f"the legs of agent {name} go through"
            yield TopicUse(through, what, (*path, "correlate"), name)
    for name, schedule in file.schedules.items():
        yield TopicUse(schedule.topic, f"schedule {name} writes to", ("schedules", name))


def letters(file: FileModel, agent: AgentModel) -> DeadLettersModel:
    """The dead-letter keys of the agent, each with the file's value as the default."""
    return (agent.dead_letters or DeadLettersModel()).besides(file.dead_letters)


def dead_letters(file: FileModel, agent: AgentModel) -> str:
    return letters(file, agent).topic or f"{file.app}.dead"


def _named(file: FileModel) -> bool:
    return file.dead_letters is not None and file.dead_letters.topic is not None
