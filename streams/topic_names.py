"""What an agent reads: topics by their names, and patterns of names.

A pattern is kept among the names of topics, behind a `^`, which no name of a topic has. It matches whole names, by RE2,
which takes linear time. It matches no name that begins with two underscores: Kafka's own topics have such names.

A topic of another cluster than the default one is called TOPIC@CLUSTER everywhere but in what the brokers are asked:
no name of a topic has an `@`. So a topic of the same name on another cluster is another topic, for the store too.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import Agent, App

MARK = "^"
CLUSTER = "@"
"""Separates the topic from the cluster."""
OF_KAFKA = "__"
"""Begins the names of Kafka's own topics."""
MISSING = 'pip install "sluicegate[regex]"'


def name_of(pattern: str) -> str:
    """The pattern as it is kept among names."""
    return MARK + pattern


def pattern_of(name: str) -> str | None:
    """None: it is the name of a topic."""
    return name[len(MARK) :] if name.startswith(MARK) else None


def cluster_of(name: str) -> str:
    """The cluster of a topic or a pattern; empty: the default one."""
    return name.partition(CLUSTER)[2]


def of_input(names: Iterable[str]) -> str:
    """The cluster of the topics of one agent, which are all in one."""
    return next(map(cluster_of, names), "")


def plain(name: str) -> str:
    """The topic or the pattern as its brokers know it."""
    return name.partition(CLUSTER)[0]


def on_cluster(name: str, cluster: str) -> str:
    """What the brokers of the cluster know, as it is called here."""
    return f"{name}{CLUSTER}{cluster}" if cluster else name


def patterns(names: Iterable[str]) -> list[str]:
    """The patterns among the names, as they are kept there."""
    return [name for name in names if name.startswith(MARK)]


def topics(names: Iterable[str]) -> list[str]:
    """The names of topics among the names."""
    return [name for name in names if not name.startswith(MARK)]


def in_words(name: str) -> str:
    return name if (pattern := pattern_of(name)) is None else f"the topics that match {pattern}"


def several(names: Sequence[str]) -> bool:
    """Whether they may be more than one topic."""
    return len(names) > 1 or bool(patterns(names))


@cache
def matcher(pattern: str) -> Callable[[str], object]:
    """Tells whether a whole name matches, with a value that is true. Raises ConfigurationError without RE2, and
    ValueError for what is not a regular expression."""
    try:
        import re2
    except ImportError:
        raise ConfigurationError(f"a pattern of topics needs RE2: {MISSING}") from None
    options = re2.Options()
    options.log_errors = False
    try:
        matched: Callable[[str], object] = re2.compile(pattern, options=options).fullmatch
    except re2.error:
        raise ValueError("is not a regular expression of RE2") from None
    return matched


def matches(name: str, topic: str) -> bool:
    """Whether the topic has this name, or matches this pattern."""
    if (pattern := pattern_of(name)) is None:
        return name == topic
    if topic.startswith(OF_KAFKA) or cluster_of(name) != cluster_of(topic):
        return False
    return bool(matcher(plain(pattern))(plain(topic)))


def reads(names: Collection[str], topic: str) -> bool:
    """Whether one of the names is the topic, or a pattern that matches it."""
    return topic in names or any(matches(name, topic) for name in names if name.startswith(MARK))


def matching(names: Sequence[str], existing: Iterable[str]) -> list[str]:
    """The topics of these names: those that are named, and those of `existing` that a pattern matches, sorted."""
    asked, named = patterns(names), topics(names)
    more = (topic for topic in existing if topic not in named and any(matches(each, topic) for each in asked))
    return [*named, *sorted(more)] if asked else named


def origins(names: Iterable[str], existing: Iterable[str]) -> list[str]:
    """The origins of windows (AGENT/NAME), with AGENT/TOPIC for each topic that a pattern matches."""
    every, asked = list(existing), [name.partition("/") for name in names]
    return [f"{agent}/{topic}" for agent, _, name in asked for topic in matching([name], every)]


def origin_patterns(agent: "Agent") -> list[str]:
    """The patterns among the names of its windows' origins, as they are kept there."""
    window = agent.aggregation.window if agent.aggregation is not None else None
    names = window.origins if window is not None else ()
    return [name for name in names if name.partition("/")[2].startswith(MARK)]


def looks_for_topics(agent: "Agent") -> bool:
    """Whether its workers ask the brokers for the names of all topics."""
    return bool(patterns(agent.topics) or origin_patterns(agent))


class TopicNames(frozenset[str]):
    """Names whose `in` asks the patterns among them, too."""

    def __contains__(self, topic: object) -> bool:
        return super().__contains__(topic) or (
            isinstance(topic, str) and any(matches(name, topic) for name in patterns(self))
        )


def by_pattern(app: "App") -> bool:
    """Whether an agent of the app reads topics by a pattern."""
    return any(patterns(agent.topics) for agent in app.agents)


def resolved(app: "App", existing: Iterable[str]) -> "App":
    """The app whose agents name the topics that their patterns match now."""
    every = list(existing)
    return replace(app, agents=tuple(_resolved(agent, every) for agent in app.agents))


def _resolved(agent: "Agent", existing: Sequence[str]) -> "Agent":
    if origin_patterns(agent) and agent.aggregation is not None and agent.aggregation.window is not None:
        window = replace(agent.aggregation.window, origins=tuple(origins(agent.aggregation.window.origins, existing)))
        agent = replace(agent, aggregation=replace(agent.aggregation, window=window))
    if not patterns(agent.topics):
        return agent
    return replace(agent, topics=tuple(matching(agent.topics, existing)))
