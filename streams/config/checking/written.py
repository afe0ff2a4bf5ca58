"""The topics that a file writes: results, dead letters, histories, its internal topics, and messages of `schedules`."""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from sluicegate.streams.config.sections.dead_letters import DeadLettersModel
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.text.problems import FileFinding, Path


class TopicRole(IntEnum):
    """What a topic holds. All but messages are for the app itself: of two roles, the later one moves."""

    DEAD_LETTERS = 0
    HISTORY = 1
    REKEYED = 2
    LEGS = 3
    MESSAGES = 4


SHARED = (TopicRole.DEAD_LETTERS, TopicRole.MESSAGES)
"""Several agents may write such records to one topic."""


class TopicUse(NamedTuple):
    """A topic, how the file uses it, the keys that cause this, what it holds, and the agent that writes it; empty for
    a schedule."""

    topic: str
    what: str
    path: Path
    role: TopicRole
    agent: str = ""


def uses(file: FileModel) -> Iterator[TopicUse]:
    for name, agent in file.agents.items():
        path: Path = ("agents", name)
        for at, to in agent.outputs.items():
            yield TopicUse(
                to.topic, f"agent {name} writes its results to", (*path, *at, "topic"), TopicRole.MESSAGES, name
            )
        own = agent.dead_letters is not None and agent.dead_letters.topic is not None
        at_letters: Path = (*path, "dead_letters") if own else ("dead_letters",) if _named(file) else ("app",)
        what = f"dead letters of agent {name} go to"
        yield TopicUse(dead_letters(file, agent), what, at_letters, TopicRole.DEAD_LETTERS, name)
        if agent.history:
            what = f"agent {name} writes its history to"
            yield TopicUse(agent.history, what, (*path, "history"), TopicRole.HISTORY, name)
        if agent.repartition is not None:
            yield TopicUse(
                agent.repartition, f"agent {name} re-keys to", (*path, "repartition"), TopicRole.REKEYED, name
            )
        if agent.correlate is not None:
            through, what = agent.correlate.topic(file.app, name), f"the legs of agent {name} go through"
            yield TopicUse(through, what, (*path, "correlate"), TopicRole.LEGS, name)
    for name, schedule in file.schedules.items():
        yield TopicUse(schedule.topic, f"schedule {name} writes to", ("schedules", name, "topic"), TopicRole.MESSAGES)


def findings(file: FileModel) -> Iterator[FileFinding]:
    """Topics with two roles, or of two agents: the engine and its commands would take records of one for records of the
    other."""
    firsts: dict[str, TopicUse] = {}
    for use in sorted(uses(file), key=lambda use: use.role):
        other = firsts.setdefault(use.topic, use)
        if other.role < use.role or (other is not use and use.role not in SHARED):
            what = f"is {use.topic}, which {other.what}"
            yield FileFinding(use.path, what, "give it a topic of its own", (use.path, other.path))


def letters(file: FileModel, agent: AgentModel) -> DeadLettersModel:
    """The dead-letter keys of the agent, each with the file's value as the default."""
    return (agent.dead_letters or DeadLettersModel()).besides(file.dead_letters)


def dead_letters(file: FileModel, agent: AgentModel) -> str:
    return letters(file, agent).topic or f"{file.app}.dead"


def _named(file: FileModel) -> bool:
    return file.dead_letters is not None and file.dead_letters.topic is not None
