"""Decides the outcome of a completed group whose dead letter an operator retried."""

from collections import Counter

from msgspec.structs import replace

from sluicegate.streams.aggregation.events import Fire, Unhandled
from sluicegate.streams.aggregation.rule import Rule


def decided(fire: Fire, rule: Rule, handled: bool, outcomes: Counter[tuple[str, str]]) -> list[Fire | Unhandled]:
    """Apply the clauses of the file to the group. Returns a group to send or handle, a dead letter, or nothing. Counts
    the outcomes. Raises ExpressionStopped."""
    if fire.again is None:
        return [fire]
    fire = replace(fire, again=None) if handled else fire
    return [fire] if rule.results is None else list(rule.results.events(fire, outcomes))
