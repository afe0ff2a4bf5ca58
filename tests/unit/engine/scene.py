"""What the tests of the engine share: an agent, its input, what came out, and how a process dies."""

import json
from collections.abc import Callable
from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.contracts.stores import Store
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header

COMPUTE = (Reducer("total", "sum", "amount"),)


class Killed(BaseException):
    """As kill -9: nobody catches it, and its driver is not turned again."""


deadly: dict[str, Callable[[Any], bool]] = {}
"""`deadly["now"]` says of a message whether the reducer below ends the process."""


def dies(total: Any, message: Any) -> Any:
    if deadly.get("now", lambda message: False)(message):
        raise Killed
    return (total or 0) + 1


DIES = Reducer("alive", "reduce", None, "tests.unit.engine.scene:dies")


def an_agent(name: str = "sums", topics: tuple[str, ...] = ("in",), to: str = "out", **wanted: Any) -> Agent:
    apart = ("receive", "start", "format", "max_record_bytes", "dedupe", "delivery", "on_error")
    about = {key: wanted.pop(key) for key in apart if key in wanted}
    rule = {"count": 3, "since_first": 30.0, "compute": COMPUTE} | wanted
    return Agent(name, topics, Aggregation(**rule), Destination(to), "dead", **about)


def a_log(*topics: str, partitions: int = 1) -> Log:
    log = Log()
    for topic in topics or ("in", "out", "dead"):
        log.create(topic, partitions)
    return log


def feed(log: Log, *pairs: tuple[str, Any], topic: str = "in", number: int = 0) -> None:
    for key, amount in pairs:
        log.append(topic, number, key.encode(), json.dumps({"amount": amount}).encode())


def totals(log: Log, topic: str = "out") -> list[tuple[str, str, int, Any]]:
    """(key, reason, count, total) of each result, once."""
    documents = [json.loads(message.v or b"null") for message in distinct(log, topic)]
    return [(r["key"], r["reason"], r["count"], r.get("total")) for r in documents]


def dead(log: Log) -> list[tuple[str | None, str | None]]:
    """(offset, reason) of each dead letter, once."""
    return [(header(m, "sluicegate-dead-offset"), header(m, "sluicegate-dead-reason")) for m in distinct(log, "dead")]


def shown(driver: Driver) -> tuple[list[str], dict[tuple[str, int], tuple[str, str | None]]]:
    """What a person sees: why it is not ready, and state and error of each partition."""
    report = driver.worker.reports.of(driver.clock.now)
    assert report.ready is not bool(report.reasons)
    return list(report.reasons), {(p.topic, p.number): (p.state, p.error) for p in report.partitions}


def until_killed(driver: Driver, times: int = 10) -> bool:
    """Turn it; was it killed?"""
    try:
        driver.turns(times)
    except Killed:
        return True
    return False


def hooked(
    store: Store, before: Callable[[Any, Any], None] | None = None, after: Callable[[Any, Any], None] | None = None
) -> Store:
    """The store with a hook around each commit."""
    commit = store.commit

    def commits(claim: Any, changes: Any) -> Any:
        if before is not None:
            before(claim, changes)
        done = commit(claim, changes)
        if after is not None:
            after(claim, changes)
        return done

    store.commit = commits  # type: ignore[method-assign]
    return store


__all__ = ["Driver", "Log", "ManualClock", "distinct", "header"]
