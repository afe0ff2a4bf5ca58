"""A smaller plan that still fails: faults, then records, are left out while the verdict stays bad."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.plan import Plan

Fails = Callable[[Plan], bool]


def shrunk(plan: Plan, fails: Fails, most: int = 400) -> Plan:
    """The plan with as few faults and records as `most` runs find; what is left fails as a whole, and without any one
    fault does not, where there were runs enough."""
    budget = [most]

    def still(smaller: Plan) -> bool:
        budget[0] -= 1
        return budget[0] >= 0 and fails(smaller)

    faults = _without(plan.faults, lambda rest: still(plan._replace(faults=tuple(rest))))
    plan = plan._replace(faults=tuple(faults))
    records = _without(plan.records, lambda rest: still(plan._replace(records=tuple(rest))), least=8)
    return plan._replace(records=tuple(records))


def _without(items: Sequence[Any], fails: Callable[[Sequence[Any]], bool], least: int = 1) -> list[Any]:
    """Leave out ever smaller runs of them, down to `least` at a time."""
    rest, size = list(items), max(1, len(items) // 2)
    while size >= least:
        at, left_out = 0, False
        while at < len(rest):
            fewer = rest[:at] + rest[at + size :]
            if fails(fewer):
                rest, left_out = fewer, True
            else:
                at += size
        size = size if left_out and size == least else size // 2
    return rest
