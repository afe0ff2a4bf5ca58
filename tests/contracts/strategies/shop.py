"""A shop whose handlers book orders on any store, and what became of them. One at a time: `open_shop` says which."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Deduplication, Destination, Handler
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition, PartitionView
from sluicegate.streams.handlers import Context, Message
from tests.contracts.application import Books
from tests.contracts.given import seen
from tests.unit.engine.driver import Driver, ManualClock, distinct, header
from tests.unit.engine.scene import a_log

BY_HEADER = Deduplication("header", "message-id", horizon=3600.0)


class Shop:
    """`elsewhere` is another system, with the ids that it was given; `fails` says how often each order's audit fails
    yet."""

    def __init__(self, store: Store, url: str, name: str) -> None:
        self.store, self.log, self.clock, self.place = store, a_log(), ManualClock(), Partition("app", name, "in", 0)
        self.books = Books(url, Partition(name, name, "in", 0))
        self.books.partition = self.place
        self.elsewhere: list[tuple[str, int]] = []
        self.fails: dict[int, int] = {}
        self.called: list[int] = []
        self.sessions: list[Any] = []
        self.sent_when_called: list[int] = []

    def agent(self, *functions: str, **how: Any) -> Agent:
        dedupe = how.pop("dedupe", None)
        handler = Handler(
            tuple(f"{__name__}:{name}" for name in functions), **{"session": True, "backoff_first": 0.1} | how
        )
        return Agent(self.place.agent, ("in",), None, Destination("out"), "dead", handler=handler, dedupe=dedupe)

    def order(self, *numbers: int, identity: str | None = None) -> None:
        for number in numbers:
            headers = [("message-id", (identity or f"order-{number}").encode())]
            self.log.append("in", 0, b"k%d" % (number % 3), json.dumps({"n": number}).encode(), headers)

    def worker(self, *functions: str, **how: Any) -> Driver:
        return Driver(self.agent(*functions, **how), self.store, self.log, self.clock, app=self.place.app).give(0)

    def run(self, *functions: str, times: int = 8, **how: Any) -> Driver:
        """A worker, for some time."""
        driver = self.worker(*functions, **how)
        for _ in range(times):
            driver.turns(2).later(0.6)
        return driver

    def crash(self, point: str, *functions: str, nth: int = 1, **how: Any) -> None:
        """A worker that ends at this place."""
        failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{point}=raise@{nth}"})
        with suppress(failpoints.Failpoint):
            self.run(*functions, **how)
            raise AssertionError(f"{point} was not reached")
        failpoints.arm({})

    def lines(self) -> list[str]:
        return sorted(self.books.lines())

    def sent(self) -> list[int]:
        """What a receiver that drops repeats by their ids has, in its order."""
        return [json.loads(message.v or b"0") for message in distinct(self.log, "out")]

    def copies(self) -> list[Any]:
        """Everything that is in the topic."""
        return list(self.log.topics["out"][0])

    def dead(self) -> list[str | None]:
        return [header(message, "sluicegate-dead-reason") for message in distinct(self.log, "dead")]

    def seen(self) -> PartitionView:
        return seen(self.store, self.place)


open_now: list[Shop] = []


@contextmanager
def open_shop(store: Store, url: str, name: str) -> Iterator[Shop]:
    open_now.append(Shop(store, url, name))
    try:
        yield open_now[-1]
    finally:
        failpoints.arm({})
        open_now.clear()


def book(message: Message, session: Any, send: Any) -> None:
    [shop] = open_now
    number = message.value["n"]
    shop.called.append(number)
    shop.sessions.append(session)
    shop.books.enter(session, f"order {number}")
    send(number)


def audit(message: Message, session: Any) -> None:
    """After `book`, with the same session."""
    [shop] = open_now
    shop.sessions.append(session)
    shop.sent_when_called.append(len(shop.copies()))
    shop.books.enter(session, f"audit {message.value['n']}")
    if shop.fails.get(message.value["n"], 0):
        shop.fails[message.value["n"]] -= 1
        raise ValueError("refused")


def forward(message: Message, send: Any) -> None:
    """Nothing but a message."""
    [shop] = open_now
    shop.called.append(message.value["n"])
    send(message.value["n"])


def by_id(message: Message, id: str, send: Any) -> None:
    """In another system that refuses an id it knows."""
    [shop] = open_now
    shop.called.append(message.value["n"])
    if all(known != id for known, _ in shop.elsewhere):
        shop.elsewhere.append((id, message.value["n"]))
    send(message.value["n"])


def careless(message: Message, id: str, send: Any) -> None:
    """As `by_id`, and nobody looks at the id."""
    [shop] = open_now
    shop.elsewhere.append((id, message.value["n"]))
    send(message.value["n"])


def saga(message: Message, session: Any, send: Any, context: Context) -> None:
    """State, a message and a reminder."""
    [shop] = open_now
    number = message.value["n"]
    shop.books.enter(session, f"saga {number}")
    send(number)
    context.schedule({"remind": number}, after=timedelta(hours=1), topic=shop.place.agent)
    if shop.fails.get(number, 0):
        shop.fails[number] -= 1
        raise ValueError("refused")
