"""A store's clock that a test steps: an hour ahead, and back. Servers are on this machine's clock, so here each store
adds the step to the time that its server tells it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.connectors.mongodb import buffer, lanes, outbox, steps, timeouts
from sluicegate.connectors.redis import connection
from sluicegate.connectors.sql.leased.transactions import TransactionRunner

_LUA = "local now = time[1] * 1000000 + time[2]"


@dataclass
class Stepped:
    """`step` is how far the stores of this process are ahead."""

    step: timedelta = timedelta(0)

    def later(self, more: timedelta) -> None:
        self.step += more

    def now(self) -> datetime:
        return datetime.now(UTC) + self.step

    def take_over(self, patch: pytest.MonkeyPatch) -> None:
        """From now on every store of this process asks this clock."""
        self._memory(patch)
        self._sql(patch)
        self._redis(patch)
        self._mongodb(patch)

    def _memory(self, patch: pytest.MonkeyPatch) -> None:
        begin: Any = MemoryStore.__init__

        def init(store: MemoryStore, clock: Callable[[], float] = time.time, **more: Any) -> None:
            begin(store, lambda: clock() + self.step.total_seconds(), **more)

        patch.setattr(MemoryStore, "__init__", init)

    def _sql(self, patch: pytest.MonkeyPatch) -> None:
        tell = TransactionRunner.now
        patch.setattr(
            TransactionRunner, "now", lambda runner, session: tell(runner, session) + self.step.total_seconds()
        )

    def _redis(self, patch: pytest.MonkeyPatch) -> None:
        run = connection.run_script

        def stepped(server: Any, text: str, keys: Any, args: Any) -> Any:
            assert _LUA in text or "'TIME'" not in text
            micros = self.step // timedelta(microseconds=1)
            return run(server, text.replace(_LUA, f"{_LUA} + ({micros})"), keys, args)

        patch.setattr(connection, "run_script", stepped)

    def _mongodb(self, patch: pytest.MonkeyPatch) -> None:
        lock, tell = steps.locked, steps.server_time

        def locked(*args: Any, **more: Any) -> Any:
            holder = lock(*args, **more)
            return holder | {"now": holder["now"] + self.step}

        def server_time(*args: Any, **more: Any) -> datetime:
            return tell(*args, **more) + self.step

        for module in (buffer, lanes, outbox, timeouts):
            for name, stepped in (("locked", locked), ("server_time", server_time)):
                if hasattr(module, name):
                    patch.setattr(module, name, stepped)
