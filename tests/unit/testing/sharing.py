"""Handlers of groups of the shared buffer, for test_shared."""

from streams.handlers.values import BadItems, Batch, Context, Outage

calls: list[tuple[str, int]] = []
failing: list[str] = []  # why the next calls fail


def reset() -> None:
    calls.clear()
    failing.clear()


def total(batch: Batch, context: Context) -> None:
    calls.append((context.id, context.attempt))
    if failing:
        why = failing.pop(0)
        raise {"outage": Outage("away"), "bad": BadItems({1: "odd"})}.get(why) or RuntimeError(why)
    context.send({"total": sum(item["v"] for item in batch.value["all"])})


def remind(batch: Batch, context: Context) -> None:
    context.schedule({"v": 1}, after=1.0)
