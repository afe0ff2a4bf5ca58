"""Twenty groups of an agent that keeps four of them in memory; the others are rows of the store."""

from collections.abc import Sequence
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.alarms import is_alarm, key_of
from sluicegate.streams.contracts.values import ColdGroup, Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import OpenGroup, drop, fire, open_groups
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.scene import a_log
from tests.unit.engine.test_windows import put

PLACE = Partition("app", "sums", "in", 0)
ANNE = Person("anne", "a test", "a token")
KEYS = [f"key-{number:02}" for number in range(20)]


class ColdScene:
    """The groups have one record each, in turns of their own."""

    def __init__(self, agent: Agent, most: int = 20) -> None:
        self.clock, self.log, self.agent = ManualClock(), a_log(), agent
        self.store = memory(self.clock)
        self.driver = self.started(self.agent)
        for number, key in enumerate(KEYS[:most]):
            self.open_group(key, number)

    def open_group(self, key: str, number: int) -> None:
        raise NotImplementedError

    def key(self, name: bytes) -> str:
        """The key of a group."""
        return name.decode()

    def started(self, agent: Agent, **more: Any) -> Driver:
        return Driver(agent, self.store, self.log, self.clock, **more).give(0).turns(4)

    def changed(self, agent: Agent, policy: str) -> None:
        """The groups that are open are of version 1 of the rule, and `agent` is version 2."""
        first = self.agent, "refuse"
        self.started(self.agent, deployed=deployed(first))
        self.driver = self.started(agent, deployed=deployed(first, (agent, policy)))

    @property
    def rows(self) -> list[str]:
        return sorted(self.key(row.key) for row in self.store.keys(PLACE, None, 100))

    @property
    def cold(self) -> list[str]:
        """The keys of the rows that count."""
        hot = contents_of(self.agent, PLACE, self.view).groups.states
        return sorted(self.key(row.key) for row in self.store.keys(PLACE, None, 100) if row.key not in hot)

    @property
    def owner(self) -> Any:
        return self.driver.worker._owners["in", 0]

    @property
    def view(self) -> Any:
        view = self.store.read(PLACE)
        assert view is not None
        return view

    def group(self, key: str) -> OpenGroup:
        [group] = open_groups(self.store, "app", self.agent, key.encode())
        return group

    def fire(self, key: str) -> None:
        """A person ends the group of this key, and its owner does so."""
        fire(self.store, self.group(key), ANNE)
        self.claimed_again()

    def drop(self, key: str) -> None:
        """A person drops the group of this key. The owner is told later (claimed_again)."""
        drop(self.store, self.group(key), self.agent, ANNE)
        assert self.open_keys() == [other for other in KEYS if other != key]

    def claimed_again(self) -> None:
        """The owner of the time before the command is fenced, and claims again."""
        for _ in range(3):
            self.driver.later(6).turns(5)

    def open_keys(self) -> list[str]:
        return sorted(group.key.decode() for group in open_groups(self.store, "app", self.agent))


class ColdWindowScene(ColdScene):
    """The groups are of windows. The record of the group with the number N comes N seconds after the test began, and
    has an amount of N."""

    def open_group(self, key: str, number: int) -> None:
        self.feed((key, number, number))

    def feed(self, *records: tuple[str, int, int]) -> None:
        """Keys, seconds since the test began, and amounts, in turns of their own."""
        put(self.log, *records)
        self.driver.turns(2).later(0.1)

    @property
    def groups(self) -> Any:
        return self.owner.groups.newest


class ColdByCloseScene(ColdWindowScene):
    """The windows have no fixed starts: a deadline on the owner's clock is a row of its own, an alarm."""

    @property
    def stored(self) -> Sequence[ColdGroup]:
        return self.store.keys(PLACE, None, 200)

    @property
    def rows(self) -> list[str]:
        return sorted(key_of(row.key).decode() for row in self.stored if not is_alarm(row.key))

    @property
    def cold(self) -> list[str]:
        return self.rows

    @property
    def alarms(self) -> int:
        return sum(is_alarm(row.key) for row in self.stored)
