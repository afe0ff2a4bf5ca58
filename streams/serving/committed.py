"""The open groups of a key in the store: committed state only.

Each process of the app that can reach the store can answer for each key, whichever worker owns its partition. The
groups of an agent are cached for a while, so many questions need one reading of the store.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.operations.desk import StoreDesk
from sluicegate.streams.operations.groups.cold_groups import has_changed
from sluicegate.streams.operations.groups.contents import PartitionContents, contents_of, partitions
from sluicegate.streams.operations.groups.open_groups import OpenGroup, with_cold
from sluicegate.streams.operations.groups.shared_groups import shared_groups

LEAST = 1.0  # minimum seconds for which a reading is kept
SHARE = 0.2  # the maximum part of the time that is spent reading
FORGOTTEN = 60.0  # seconds after which an unused reading is dropped
TRIES = 5  # readings of a partition whose group changes during the search


class KeptReading(NamedTuple):
    """The groups of one agent, read at the time `at` and valid `until`. The groups of a shared agent are in `shared`;
    for other agents they are in the contents of the partitions."""

    at: float
    until: float
    contents: Sequence[PartitionContents] = ()
    shared: Sequence[OpenGroup] = ()


class CommittedGroups(NamedTuple):
    """The groups of a key, by window, and the age of the reading in seconds."""

    groups: Sequence[OpenGroup]
    age: float


class CommittedState:
    """Reads the open groups of an app. `clock` returns monotonic seconds, `now` seconds since 1970."""

    def __init__(self, app: App, desk: StoreDesk, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self._app, self._desk = app, desk
        self._clock, self._now = clock, now
        self._kept: dict[str, KeptReading] = {}

    def groups(self, agent: Agent, key: bytes, fresh: bool = False) -> CommittedGroups:
        """The open groups of this key. With `fresh` the store is read for this question. Raises PersistenceError,
        SystemNotReady, and the errors of `contents_of`."""
        with self._desk.store() as store:
            reading = self._reading(agent, store, fresh)
            groups = [group for group in reading.shared if group.key == key]
            for contents in reading.contents:
                groups += self._within(store, agent, contents, key)
            age = max(0.0, self._clock() - reading.at)
        return CommittedGroups(sorted(groups, key=_order), age)

    def _reading(self, agent: Agent, store: Store, fresh: bool) -> KeptReading:
        began = self._clock()
        reading = self._kept.get(agent.name)
        if reading is None or fresh or began >= reading.until:
            if agent.scope == "shared":
                reading = KeptReading(
                    began, 0.0, shared=shared_groups(store.buffer, self._app.name, agent, self._now())
                )
            else:
                reading = KeptReading(began, 0.0, list(partitions(store, self._app.name, agent)))
            took = self._clock() - began
            reading = reading._replace(until=began + max(LEAST, took / SHARE))
        self._kept = {name: reading for name, reading in self._kept.items() if reading.at > began - FORGOTTEN}
        self._kept[agent.name] = reading
        return reading

    def _within(self, store: Store, agent: Agent, contents: PartitionContents, key: bytes) -> list[OpenGroup]:
        """The groups of one partition. A group can be missing in both readings: it opened, or was evicted, after the
        changelog was read. Then the changelog is read again."""
        for _ in range(TRIES):
            groups = with_cold(contents, store, key)
            if groups or not contents.groups.cold.count:
                return groups
            view = store.read(contents.partition)
            if view is None or not has_changed(contents, view, key):
                return []
            contents = contents_of(agent, contents.partition, view)
        raise SystemNotReady("the group changed each time while it was looked for; ask again")


def _order(group: OpenGroup) -> tuple[int, str, int, int]:
    """By window, then by partition and version of the rule."""
    start = 0 if group.window is None else group.window.start
    return start, group.partition.topic, group.partition.number, group.generation
