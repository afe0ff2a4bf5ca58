"""What all partitions of a worker share."""

from collections.abc import Callable, Collection
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.stores import Input, Store, TopicPartition
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.rekey import Repartitioning
from sluicegate.streams.handlers.slow import Slow
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.shared.shared_fires import SharedFires
from sluicegate.streams.shared.shared_intake import SharedIntake


class AgentRuntime(NamedTuple):
    """`process` is a random name of this process, `member` the one people see; `handling` is what is done with each
    message instead of an aggregation, or with its groups, `slow` how, when that is outside of the commit. A
    SharedIntake fires, too, and that is its worker's to turn."""

    agent: Agent
    rule: Rule
    store: Store
    input: Input
    process: str
    member: str
    on_rule_change: str
    handling: Handling | Repartitioning | SharedIntake | None = None
    slow: Slow | None = None
    ids: IdRule | None = None

    @property
    def fires(self) -> SharedFires | None:
        return self.handling.fires if isinstance(self.handling, SharedIntake) else None

    def holds(self, place: tuple[str, int], offset: int, identify: Callable[[int], str]) -> bool:
        """Is the record in the shared buffer, whatever became of the commit after that? Raises PersistenceError."""
        return isinstance(self.handling, SharedIntake) and self.handling.holds(place, offset, identify)

    def turn(self, now: float) -> None:
        if self.fires is not None:
            self.fires.turn(now)

    def measure(self, now: float, owned: Collection[TopicPartition]) -> None:
        """What is one number for all workers, when this one has the agent's first partition."""
        if isinstance(self.handling, SharedIntake):
            self.handling.size.turn(now, (self.agent.topics[0], 0) in owned)

    def stop(self) -> None:
        """Nothing begins any more outside of the commits: the process is about to end."""
        for each in (self.slow, self.fires):
            if each is not None:
                each.stop()

    def finish(self) -> None:
        """The process ends, drained or by an error: what is under way at the store is not cut off in the middle."""
        if self.fires is not None:
            self.fires.finish()
