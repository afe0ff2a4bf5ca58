"""Handlers of groups of the shared buffer, for test_shared."""

from streams.handlers.values import BadItems, Batch, Context, Outage
from streams.testing.deaths import Death

calls: list[tuple[str, int]] = []
failing: list[str] = []  # why the next calls fail
called: dict[int, list[int]] = {}  # attempts by value
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
    for item in batch.value["all"]:
        called.setdefault(item["v"], []).append(context.attempt)
    if deadly & {item["v"] for item in batch.value["all"]}:
        raise Death("handler")
    if broken & {item["v"] for item in batch.value["all"]}:
        raise RuntimeError("broken")
    if failing:
        why = failing.pop(0)
        raise {"outage": Outage("away"), "bad": BadItems({1: "odd"})}.get(why) or RuntimeError(why)
    context.send({"total": sum(item["v"] for item in batch.value["all"])})


def remind(batch: Batch, context: Context) -> None:
    context.schedule({"v": 1}, after=1.0)
