"""What a reducer makes of records that come in any batches, over restarts, and in parts that are merged."""

import json
import random
from collections.abc import Sequence
from typing import Any

from sluicegate.schemas import codec
from sluicegate.streams.agent import Aggregation, Reducer, Window
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.aggregation.merging import merging, pour
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.reduction import BagForm
from tests.unit.aggregation.turning import Turned, an_agent, record

KEY = b"a"
SESSION = Window(60.0, kind="session")


def documents(items: Sequence[Any]) -> list[bytes]:
    return [json.dumps({"n": item}).encode() for item in items]


def computed(reducer: Reducer, items: Sequence[Any], chance: random.Random, **rule: Any) -> Any:
    """The value of a group of records with these values in their field `n`: cut into batches, with commits and
    restarts between them."""
    turned = Turned(an_agent(Aggregation(count=len(items), compute=(reducer,), **rule)))
    values, start = documents(items), 0
    while start < len(values):
        end = start + chance.randint(1, 1 + len(values) // 4)
        turned.accept([record(start + n, KEY, value) for n, value in enumerate(values[start:end])], 1.0)
        start = end
        if chance.random() < 0.7:
            turned.commit(1.0)
            if chance.random() < 0.5:
                turned.restore()
    turned.commit(1.0)
    assert turned.refused == []
    return turned.fires[KEY][0][-1][reducer.name]


def merged(reducer: Reducer, parts: Sequence[Sequence[Any]], order: Sequence[int] = (), **rule: Any) -> Any:
    """The value of groups with the records of these parts that became one, in the order of the parts or in this
    one."""
    made = Rule(an_agent(Aggregation(window=SESSION, compute=(reducer,), **rule)), codec("json"))
    merge = merging(made.aggregation.compute, made.aggregation.on_missing == "ignore")
    whole, bags = GroupState(), made.plan.empty_bags()
    offsets = [sum(map(len, parts[:number])) for number in range(len(parts))]
    for number in order or range(len(parts)):
        state, own = _filled(made, parts[number], offsets[number])
        if whole:
            merge(whole, state)
        else:
            whole = state
        pour(made.plan.bags, bags, own)
    return made.values(whole, bags)[reducer.name]


def _filled(rule: Rule, part: Sequence[Any], offset: int) -> tuple[GroupState, list[Any]]:
    state: GroupState = [0, offset, offset, 0.0, None, None, 0, *rule.plan.blank]
    bags = rule.plan.empty_bags()
    for number, value in enumerate(documents(part)):
        read = rule.reader.decode(value)
        state[0] += 1
        state[2] = offset + number
        for add in rule.plan.adders:
            add(state, read)
        for kind, bag in zip(rule.plan.bags, bags, strict=True):
            if (item := kind.item(read, value, offset + number)) is not None:
                kind.form.put(bag, item)
    return state, bags


def held(reducer: Reducer, items: Sequence[Any], merges: bool) -> tuple[BagForm, Any, int]:
    """What a group of records with these values holds, and its bytes."""
    window = SESSION if merges else None
    made = Rule(an_agent(Aggregation(window=window, count=None if merges else 9, compute=(reducer,))), codec("json"))
    [kind], bag, size = made.plan.bags, made.plan.empty_bags()[0], 0
    for number, value in enumerate(documents(items)):
        item = kind.item(made.reader.decode(value), value, number)
        expected, grown = kind.form.growth(bag, item), kind.form.put(bag, item)
        assert expected >= (grown or 0)
        size += grown or 0
    return kind.form, bag, size


def cut(items: Sequence[Any], chance: random.Random) -> list[Sequence[Any]]:
    """The items in parts, some of them empty."""
    marks = sorted(chance.choices(range(len(items) + 1), k=4))
    return [items[start:end] for start, end in zip([0, *marks], [*marks, len(items)], strict=True)]
