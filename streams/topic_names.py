"""The topics of an agent: names of topics, and patterns of names.

A pattern is stored among the names of topics with the prefix `^`, which no topic name has. It matches whole names, by
RE2, which takes linear time. It matches no name that begins with two underscores, because Kafka's own topics have such
names.

A topic of any cluster except the default one is called TOPIC@CLUSTER everywhere except in requests to the brokers: no
topic name has an `@`. So topics of the same name on two clusters are two topics, for the store, too.
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
"""The prefix of the names of Kafka's own topics."""
MISSING = 'pip install "sluicegate[regex]"'


def name_of(pattern: str) -> str:
    """The name under which the pattern is stored."""
    return MARK + pattern


def pattern_of(name: str) -> str | None:
    """The pattern; None if it is the name of a topic."""
    return name[len(MARK) :] if name.startswith(MARK) else None


def cluster_of(name: str) -> str:
    """The cluster of a topic or a pattern; empty: the default one."""
    return name.partition(CLUSTER)[2]


def of_input(names: Iterable[str]) -> str:
    """The cluster of the topics of one agent. All of them are on one cluster."""
    return next(map(cluster_of, names), "")


def plain(name: str) -> str:
    """The topic or the pattern as its brokers know it."""
    return name.partition(CLUSTER)[0]


def on_cluster(name: str, cluster: str) -> str:
    """The name, in this app, of a topic or pattern that the brokers of the cluster know."""
    return f"{name}{CLUSTER}{cluster}" if cluster else name


def patterns(names: Iterable[str]) -> list[str]:
    """The patterns among the names, in their stored form."""
    return [name for name in names if name.startswith(MARK)]


def topics(names: Iterable[str]) -> list[str]:
    """The names of topics among the names."""
    return [name for name in names if not name.startswith(MARK)]


def in_words(name: str) -> str:
    return name if (pattern := pattern_of(name)) is None else f"the topics that match {pattern}"


def several(names: Sequence[str]) -> bool:
    """Whether they may stand for more than one topic."""
    return len(names) > 1 or bool(patterns(names))


@cache
def matcher(pattern: str) -> Callable[[str], object]:
    """A function that tells whether a whole name matches; it returns a true value. Raises ConfigurationError without
    RE2, and ValueError for an invalid regular expression."""
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
    """The topics of these names: the named ones, and the topics of `existing` that a pattern matches, sorted."""
    asked, named = patterns(names), topics(names)
    more = (topic for topic in existing if topic not in named and any(matches(pattern, topic) for pattern in asked))
    return [*named, *sorted(more)] if asked else named


def origins(names: Iterable[str], existing: Iterable[str]) -> list[str]:
    """The origins of windows (AGENT/NAME), with AGENT/TOPIC for each topic that a pattern matches."""
    every, asked = list(existing), [name.partition("/") for name in names]
    return [f"{agent}/{topic}" for agent, _, name in asked for topic in matching([name], every)]


def origin_patterns(agent: "Agent") -> list[str]:
    """The patterns among the names of its windows' origins, in their stored form."""
    window = agent.aggregation.window if agent.aggregation is not None else None
    names = window.origins if window is not None else ()
    return [name for name in names if name.partition("/")[2].startswith(MARK)]


def looks_for_topics(agent: "Agent") -> bool:
    """Whether its workers request the names of all topics from the brokers."""
    return bool(patterns(agent.topics) or origin_patterns(agent))


class TopicNames(frozenset[str]):
    """Names whose `in` also matches the patterns among them."""

    def __contains__(self, topic: object) -> bool:
        return super().__contains__(topic) or (
            isinstance(topic, str) and any(matches(name, topic) for name in patterns(self))
        )


def by_pattern(app: "App") -> bool:
    """Whether an agent of the app reads topics by a pattern."""
    return any(patterns(agent.topics) for agent in app.agents)


def resolved(app: "App", existing: Iterable[str]) -> "App":
    """The app with the topics that its agents' patterns match now."""
    every = list(existing)
    return replace(app, agents=tuple(_resolved(agent, every) for agent in app.agents))


def _resolved(agent: "Agent", existing: Sequence[str]) -> "Agent":
    if origin_patterns(agent) and agent.aggregation is not None and agent.aggregation.window is not None:
        window = replace(agent.aggregation.window, origins=tuple(origins(agent.aggregation.window.origins, existing)))
        agent = replace(agent, aggregation=replace(agent.aggregation, window=window))
    if not patterns(agent.topics):
        return agent
    return replace(agent, topics=tuple(matching(agent.topics, existing)))
