"""Handlers of groups of the shared buffer, for test_shared."""

from collections import Counter

from sluicegate.streams.handlers.values import BadItems, Batch, Context, Outage
from sluicegate.streams.testing.deaths import Death

calls: list[tuple[str, int]] = []
failing: list[str] = []  # why the next calls fail
called: Counter[int] = Counter()  # by value
deadly: set[int] = set()  # values that end the process
broken: set[int] = set()  # values that fail


def reset() -> None:
    calls.clear()
    failing.clear()
    called.clear()
    deadly.clear()
    broken.clear()


def total(batch: Batch, context: Context) -> None:
    calls.append((context.id, context.attempt))
    values = {item["v"] for item in batch.value["all"]}
    called.update(values)
    if deadly & values:
        raise Death("handler")
    if broken & values:
        raise RuntimeError("broken")
    if failing:
        why = failing.pop(0)
        raise {"outage": Outage("away"), "bad": BadItems({1: "odd"})}.get(why) or RuntimeError(why)
    context.send({"total": sum(item["v"] for item in batch.value["all"])})


def remind(batch: Batch, context: Context) -> None:
    context.schedule({"v": 1}, after=1.0)


def without_ones(total: int | None, message: dict[str, int]) -> int:
    """A reducer that refuses a record."""
    if message["v"] == 1:
        raise ValueError("a one")
    return (total or 0) + message["v"]
