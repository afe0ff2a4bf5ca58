"""A scenario whose agent is a handler of payments, and its books."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.audit import audit
from tests.chaos.books import Books
from tests.chaos.progress import Effect
from tests.chaos.record import Seen
from tests.chaos.scene import Scene
from tests.chaos.verdict import Place, Verdict, distinct

PAUSE = 0.2  # seconds between ten payments: each costs its calls to the store, and one in a hundred a whole transaction
RETRY = {"attempts": 1, "backoff": "20ms..50ms"}


def of_a_payment(partitions: int) -> Effect:
    """Accounts end with the number that their partition follows from (tests/chaos/feed.py)."""
    return lambda record: (
        int((record.key or b"").strip(b"kslow")) % partitions,
        json.loads(record.value or b"")["count"],
    )


class Ledger:
    """The agent of `scene`, replaced by one that calls `handlers` of tests/chaos/book_handlers.py, with the keys of
    `agent`."""

    def __init__(self, scene: Scene, handlers: Sequence[str], agent: dict[str, Any]) -> None:
        self.scene, self.books = scene, Books(scene.store, scene.name)
        self._stored = "forward" not in handlers
        self.books.make()
        shutil.copy(Path(__file__).with_name("book_handlers.py"), scene.folder / "chaos_books.py")
        (scene.folder / "books.json").write_text(json.dumps({"name": scene.name, "store": scene.store}))
        functions = [f"chaos_books:{name}" for name in handlers]
        settings = {"from": f"{scene.name}.in", "handler": functions, "to": {"topic": f"{scene.name}.out"}}
        scene.spec["agents"] = {"sums": settings | {"session": True, "retry": RETRY} | agent}

    def pay(self, count: int = 1, partition: int = 0, key: bytes = b"k0", **payment: Any) -> list[Place]:
        """Payments that say so; where they stand."""
        for number in range(count):
            self.scene.feed.one(key, json.dumps({"v": 1000 + number, **payment}).encode(), partition)
        self.scene.catch_up()
        places = [record.place for record in self.scene.records("in") if record.partition == partition]
        return sorted(places)[-count:]

    def verdict(self, settle: float = 90.0) -> Verdict:
        """Drain, stop everything, read topics and store to their ends, judge."""
        self.scene.end(settle)
        seen = self.scene.records
        return audit(
            seen("in"),
            self.books.entries(),
            self.books.balances(),
            seen("out"),
            seen("dead"),
            self.scene.poison,
            self._stored,
        )

    def letters(self, reason: str) -> list[Seen]:
        """The distinct dead letters of this reason."""
        return [
            letter
            for letter in distinct(self.scene.records("dead"))
            if letter.headers["sluicegate-dead-reason"] == reason
        ]
