"""The reports of a worker to its supervisor: its partitions, its metrics, and the reasons why it is not ready."""

import os
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.stores import Input, Store
from sluicegate.streams.contracts.values import LEVELS
from sluicegate.streams.errors import PersistenceError, SystemNotReady
from sluicegate.streams.lookups.tables import TopicTables
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.ownership.claims import Claims
from sluicegate.streams.ownership.status import partition_report


class StoreProbe:
    """Checks the durability level of the store. A weaker level appears in health, status and the log. It stops no
    work."""

    def __init__(self, store: Store, accepted: str, log: Any) -> None:
        """`accepted` is the name of a level. The level at the start is accepted, too."""
        self._store, self._log = store, log
        self.level = store.level()
        self._accepted = max(LEVELS.index(accepted), LEVELS.index(self.level.name))
        self.away = ""  # the error if the store did not answer the last probe

    def look(self) -> None:
        try:
            level, self.away = self._store.level(), ""
        except (PersistenceError, SystemNotReady) as error:
            self.away = str(error)
            return
        if level.name != self.level.name:
            self._log.warning("level.changed", before=self.level.name, now=level.name, reasons=list(level.reasons))
        self.level = level

    @property
    def weaker(self) -> str | None:
        """The reason why the level is weaker than the accepted one; None if it is not."""
        weak = LEVELS.index(self.level.name) > self._accepted
        return f"the store is {self.level.name}: {'; '.join(self.level.reasons)}" if weak else None


class WorkerReports:
    """The reports of one worker of an agent."""

    def __init__(
        self,
        agent: Agent,
        number: int,
        claims: Claims,
        source: Input,
        meter: Meter,
        store: StoreProbe,
        tables: TopicTables | None,
    ) -> None:
        self._agent, self._number, self._claims, self._input = agent, number, claims, source
        self._meter, self._store, self._tables = meter, store, tables
        self.draining = False

    def of(self, now: float) -> WorkerReport:
        """The report at this time."""
        reasons, claims = self._reasons(), self._claims
        text, failure, level = claims.intake.text, claims.failure, self._store.level
        running = [
            partition_report(owner, now, self._input, text(place), failure(place))
            for place, owner in claims.owners.items()
        ]
        who, partitions = (self._agent.name, self._number, os.getpid()), [*running, *claims.others()]
        more = (level.name, level.reasons), self._meter.snapshot(), self._agent.delivery
        return WorkerReport(*who, now, not reasons, reasons, partitions, *more)

    def _reasons(self) -> list[str]:
        """The reasons why the worker is not ready."""
        owners = self._claims.owners.values()
        reasons = [*self._claims.reasons(), *(why for owner in owners if (why := owner.waits_for))]
        reasons += [why for why in (self._store.weaker, self._tables and self._tables.waits_for) if why]
        if self._store.away and not reasons:
            reasons.append(f"the store does not answer: {self._store.away}")
        return ["draining", *reasons] if self.draining else reasons
