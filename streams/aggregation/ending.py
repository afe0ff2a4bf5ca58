"""`until` as an expression: whether a group ends with a record."""

from collections.abc import Mapping
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Let, Reducer
from sluicegate.streams.aggregation.clauses import GROUP, ClauseFailed, Fields, answered, clause
from sluicegate.streams.aggregation.layout import COUNT, Bags, GroupState
from sluicegate.streams.aggregation.reducers import Plan
from sluicegate.streams.aggregation.results import plain
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import identifiers, paths
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.words import normal
from sluicegate.streams.reducers import ENTRIES, kind_of

ASKED = tuple(entry.name for entry in ENTRIES if entry.until == "groups")
"""The reducers whose values an `until` expression may read. It may also read `group.count`. The legs of a correlation
add more. Of `collect` it may read only the number of items."""


def of_group(node: Node) -> list[str]:
    """The names of the fields of `group` that the expression reads."""
    return sorted({path[1] for path in paths(node) if path[0] == GROUP and len(path) > 1})


class Ending:
    """An `until` expression. It reads the record, and the group including that record."""

    __slots__ = ("_answer", "_bags", "_fields", "_names", "_reads", "name", "node")

    def __init__(
        self,
        text: str,
        compute: tuple[Reducer, ...],
        lets: tuple[Let, ...],
        codec: Codec,
        plan: Plan,
        legs: Mapping[str, int] | None = None,
    ) -> None:
        """`legs` maps each leg of a correlation to the index of its bag. Raises ConfigurationError."""
        self.name = "until" if legs is None else "complete"
        until = clause(self.name, text)
        self.node = until.node
        self._fields = Fields([until], lets, codec)
        self._answer = self._fields.function(until)
        self._names = of_group(until.node)
        kinds = ("groups",) if legs is None else ("groups", "legs")
        can_be_asked = {reducer.name for reducer in compute if kind_of(reducer).until in kinds}
        self._bags = legs or {}
        self._reads = [(name, read) for name, read in plan.reads if name in self._names and name in can_be_asked]

    def holds(self, record: Record, state: GroupState, bags: Bags) -> bool:
        """Whether the group ends with this record. `state` and `bags` already include it. False if the expression has
        no value because a value of the group does not exist yet. Raises ClauseFailed otherwise, and the errors of
        decoders."""
        group: dict[str, Any] = {"count": state[COUNT]}
        for name, read in self._reads:
            if (value := plain(read(state, bags))) is not None:
                group[name] = value
        for name, index in self._bags.items():
            if many := len(bags[index]):
                group[name] = [None] * many
        try:
            return self._answered(record, group)
        except ClauseFailed:
            if any(name not in group for name in self._names):
                return False
            raise

    def holds_alone(self, record: Record) -> bool:
        """As `holds`, for an expression that uses no field of the group."""
        return self._answered(record, {})

    def _answered(self, record: Record, group: dict[str, Any]) -> bool:
        return answered(self.name, self._answer(self._fields.in_group(record, record.value() or b"", group)))


def over_legs(until: str) -> str:
    """Convert the expression under `complete` of a correlation: there the file names the legs without `group`."""
    columns = sorted((identifier.column for identifier in identifiers(parse(until), (GROUP,))), reverse=True)
    for column in columns:
        until = until[: column - 1] + until[column - 1 :].removeprefix(f"{GROUP}.")
    return until


def waiting(until: str, values: Mapping[str, Any]) -> str:
    """Explain why the group is open: `weight is 461.5, ends at group.weight >= 500`"""
    node = clause("until", until).node
    known = [f"{name} is {values.get(name, 'not known yet')}" for name in of_group(node)]
    return ", ".join([*known, f"ends at {normal(node)}"])


def with_items(bags: Bags, items: list[Any]) -> Bags:
    """The bags with the items of one more record, as far as reducers of ASKED need them: only the sizes are right."""
    return [range(len(bag) + _grows(bag, item)) for bag, item in zip(bags, items, strict=True)]


def _grows(bag: Any, item: Any) -> bool:
    """A set keeps equal items once, a list keeps all of them."""
    return item is not None and not (type(bag) is dict and item in bag)
