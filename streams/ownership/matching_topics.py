"""The topics that the patterns of an agent match: the current ones, and the first ones.

`start` applies to the topics that existed when the agent used its pattern for the first time; the store keeps their
names. A topic that appears later is read from its beginning. So no record between its creation and the moment at which
a worker sees it is lost, even if workers crash in between.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.entry import body_of, framed
from sluicegate.streams.contracts.single_entry import claim_entry, read_entry, write_entry
from sluicegate.streams.contracts.stores import Input, Store
from sluicegate.streams.contracts.values import NOBODY, Partition
from sluicegate.streams.errors import ChangelogIncomplete, Fenced, PersistenceError, SystemNotReady
from sluicegate.streams.topic_names import matches, matching, origin_patterns, origins, patterns

FIRST = b"\x08"
"""The first byte of the entry's content."""

FirstTopics = Mapping[str, tuple[str, ...]]
"""By pattern, the topics that it matched at first."""


def place(app: str, agent: str) -> Partition:
    """The partition of the entry. No agent can have it."""
    return Partition(app, "~", f"topics.{agent}", 0)


class MatchingTopics:
    """The matching topics of one worker. `token` returns a new random name."""

    def __init__(self, app: str, agent: Agent, store: Store, source: Input, token: Callable[[], str]) -> None:
        self._agent, self._place = agent, place(app, agent.name)
        self._store, self._source, self._token = store, source, token
        self._patterns, self._origin_patterns = patterns(agent.topics), origin_patterns(agent)
        self._topics: Sequence[str] = ()
        self._origins: Sequence[str] | None = None
        self._first: FirstTopics = {}
        self._revoked: dict[Partition, str] = {}
        self._log = structlog.get_logger().bind(agent=agent.name)

    def look(self) -> bool:
        """Log topics that appeared and disappeared. Returns True if the windows have other origins than before."""
        self._log_changes()
        existing = self._source.existing() if self._origin_patterns else None
        if existing is None:
            return False
        before, self._origins = self._origins, origins(self._origin_patterns, existing)
        return before not in (None, self._origins)

    def _log_changes(self) -> None:
        topics = self._source.topics() if self._patterns else None
        if topics is None or topics == self._topics:
            return
        appeared = [topic for topic in topics if topic not in self._topics]
        gone = [topic for topic in self._topics if topic not in topics]
        self._topics = list(topics)
        self._log.info("topics.matched", appeared=appeared, gone=gone, topics=len(topics))

    def ready(self) -> bool:
        """Whether the current and the first topics are known. The first topics are needed only with `start`."""
        if self._origin_patterns:
            return self._source.existing() is not None
        if self._agent.start == "earliest" or self._first:
            return True
        topics = self._source.topics()
        if topics is None:
            return False
        try:
            self._first = self._known() or self._written(topics)
        except (Fenced, PersistenceError, SystemNotReady):
            return False
        return bool(self._first)

    def later(self, topic: str) -> bool:
        """Whether a pattern matches the topic, but none matched it at first."""
        mine = [name for name in self._patterns if matches(name, topic)]
        return bool(mine) and topic not in self._agent.topics and not any(topic in self._first[name] for name in mine)

    def revoked(self, partition: Partition, token: str) -> None:
        """Note that Kafka revoked a partition which this process last claimed with `token`. Its topic may have been
        deleted: the group may know this before the worker does."""
        self._revoked[partition] = token

    def gone(self) -> Sequence[tuple[Partition, str]]:
        """The revoked partitions whose topics were deleted, with their tokens. Each is returned once."""
        topics = self._source.topics() if self._revoked and self._patterns else None
        if topics is None:
            return ()
        gone = [(partition, token) for partition, token in self._revoked.items() if partition.topic not in topics]
        for partition, _ in gone:
            del self._revoked[partition]
        return gone

    def _known(self) -> FirstTopics:
        """The stored first topics; empty unless every pattern is stored. Raises PersistenceError and
        ChangelogIncomplete."""
        entry = read_entry(self._store, self._place)
        known = {} if entry is None else _unpacked(entry)
        return known if all(name in known for name in self._patterns) else {}

    def _written(self, topics: Sequence[str]) -> FirstTopics:
        """Store the first topics. Raises PersistenceError, and Fenced if another worker wrote them at the same time."""
        busy = "another worker claimed the first topics"
        claim, entry = claim_entry(self._store, self._place, self._token(), NOBODY, busy)
        known = {} if entry is None else _unpacked(entry)
        mine = {name: tuple(matching([name], topics)) for name in self._patterns}
        first = {**mine, **known}
        write_entry(self._store, claim, framed(FIRST + msgspec.json.encode(first)))
        return first


def _unpacked(blob: bytes) -> FirstTopics:
    try:
        return msgspec.json.decode(body_of(blob, FIRST), type=dict[str, tuple[str, ...]])
    except UNREADABLE as error:
        raise ChangelogIncomplete(f"the first topics of an agent cannot be read: {error}") from error
