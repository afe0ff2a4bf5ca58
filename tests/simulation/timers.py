"""No timeout before its time, on the store's clock."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from tests.chaos.record import Seen

ROUNDED = 0.002  # seconds: times in results are cut to milliseconds


def early(world: Any, agent: Agent, partition: Partition, fold: Any, sent: Sequence[Seen]) -> list[str]:
    """Groups that say `timeout` and were not due, by the log's own times and the jumps of the store's clock."""
    rule = agent.aggregation
    if rule is None or (rule.since_first is None and rule.since_last is None):
        return []
    written = {record.o: record.at / 1000 for record in fold.records}
    firsts = {
        fold.identify(fire[2]): fire for fires in fold.oracle.fires.values() for fire in fires if fire[0] == "timeout"
    }
    problems = []
    for message in sent:
        fire = firsts.get(fold.group_of(message))
        if fire is None or message.offset < 0:
            continue
        document = json.loads(message.value or b"{}")
        if document["reason"] != "timeout":  # an early result
            continue
        _, _, first, last, *_ = fire
        at = world.log.topics[message.topic][message.partition][message.offset].at / 1000
        until = highest(world, at)
        due = [lowest(world, written[first], at) + rule.since_first] if rule.since_first is not None else []
        due += [lowest(world, written[last], at) + rule.since_last] if rule.since_last is not None else []
        if until + ROUNDED < min(due):
            problems.append(
                f"{partition}: the group of {message.key!r} from {first} to {last} timed out {min(due) - until:.3f} s "
                "early"
            )
        if "closed_at" in document and rule.since_last is None and rule.since_first is not None:
            lasted = seconds(document["closed_at"]) - seconds(document["opened_at"])
            if lasted + ROUNDED < rule.since_first:
                problems.append(
                    f"{partition}: the group of {message.key!r} from {first} on lasted {lasted:.3f} s of "
                    f"{rule.since_first:.3f}"
                )
    return problems


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def lowest(world: Any, since: float, until: float) -> float:
    """The least that an owner can have taken for the store's time at `since`: it asks with each commit, and adds what
    passed."""
    return since + min(skew for begin, skew in world.skews if begin <= until + ROUNDED)


def highest(world: Any, until: float) -> float:
    """The most that one can have taken for it then."""
    return until + max(skew for begin, skew in world.skews if begin <= until + ROUNDED)
