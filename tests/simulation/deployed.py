"""Versions of the rule that are deployed at any step, while processes notice them one after the other; and the judge of
such runs.

A result names the rule under which it ended. Every record that can be used is in one result, or in a group that is open
at the end; what a result says follows from its records and from that rule alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from sluicegate.streams.agent import Agent, Aggregation, Reducer
from sluicegate.streams.keys import DROP, FLUSH, REWIND
from sluicegate.streams.operations.deploying import MOST_OLDER
from sluicegate.streams.operations.replaying.rewind_check import RewindCheck
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.changes import changes, policies_of
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.versions import Deployed, RuleVersion
from sluicegate.streams.testing.log import LogHistory, LogRecord
from tests.chaos.record import Seen
from tests.simulation import windows_deployed
from tests.simulation.changed import FIELDS, Tiled
from tests.simulation.fold import loads
from tests.simulation.timers import ROUNDED, seconds

KIND = "deployed"


def rules(base: Agent, chance: Random) -> tuple[Agent, ...]:
    """This rule and others: another count, no timeout, another timeout, another compute."""
    rule = base.aggregation or Aggregation()
    other = replace(rule, count=chance.randint(2, 9), compute=(Reducer("total", "sum", "m"),))
    made = (
        rule,
        replace(rule, count=chance.randint(2, 9)),
        replace(rule, count=chance.randint(2, 9), since_first=None),
        replace(rule, since_first=chance.uniform(1.0, 8.0)),
        other,
        replace(other, count=None),
    )
    return tuple(replace(base, aggregation=case) for case in made)


RULES = {
    KIND: rules,
    windows_deployed.KIND: windows_deployed.rules,
    windows_deployed.CALENDAR: windows_deployed.rules,
    windows_deployed.SESSIONS: windows_deployed.session_rules,
}
"""The versions that are deployed, by the kind of agents."""


def first(plan: Any) -> Deployed:
    return _with(Deployed(), plan.files[0], "refuse") if plan.kind in RULES else Deployed()


def _with(known: Deployed, agent: Agent, policy: str) -> Deployed:
    version = RuleVersion(known.number + 1, rule_of(agent).digest, policy, 0.0, "simulation", "", agent)
    return Deployed((*known.versions, version))


def deploy(world: Any, chosen: int) -> str | None:
    """Make another rule the one that runs, as `sluicegate deploy` would. Returns the policy; None: the rule runs."""
    known: Deployed = world.deployed
    old, new = known.versions[-1].agent, world.plan.files[chosen % len(world.plan.files)]
    if old is None or rule_of(new).digest == known.digest:
        return None
    once = world.plan.kind == windows_deployed.SESSIONS
    if once and any(version.digest == rule_of(new).digest for version in known.versions):
        return None
    suited = [policy for policy in policies_of(changes(document(old), document(new))) if policy != DROP]
    rows = world.store._rows.values()
    full = any(row.claim.source and len(row.claim.source.older) >= MOST_OLDER for row in rows)
    if world.plan.kind in windows_deployed.KINDS:
        suited = (
            [] if full else [policy for policy in suited if policy in windows_deployed.policies(world.plan.kind, new)]
        )
        if not suited:
            return None
    elif full:
        suited = [FLUSH]
    if REWIND in suited and RewindCheck(world.store, "app", LogHistory(world.log)).refused(old, known):
        suited.remove(REWIND)
    policy = REWIND if REWIND in suited and chosen % 3 else suited[chosen % len(suited)]
    world.deployed = _with(known, new, policy)
    return policy


class TiledByRule(Tiled):
    """As Tiled, judged by the rule that a result names."""

    def _judged(self, seen: Seen, document: Any, part: Sequence[LogRecord]) -> Iterator[str]:
        made = [rule_of(agent) for agent in self._world.plan.files]
        named = [number for number, rule in enumerate(made) if rule.short == seen.headers.get("sluicegate-rule")]
        if not named:
            yield f"names the rule {seen.headers.get('sluicegate-rule')}, which was not deployed"
            return
        rule = self._world.plan.files[named[0]].aggregation
        sums = {name: sum(loads(record.v)[name] for record in part) for name in FIELDS}
        reason, count, own = document["reason"], len(part), rule.compute[0].field
        if document["total"] != sums[own]:
            yield f"has another sum of {own} than {sums[own]}"
        if reason == "count" and count != rule.count:
            yield f"is complete by a count of {rule.count}"
        elif reason == "count-lowered" and not (rule.count and count > rule.count):
            yield f"is over a count of {rule.count}"
        elif reason == "timeout":
            yield from self._timed_out(rule, document)
        elif reason not in ("count", "count-lowered", "manual"):
            yield "has a reason that no rule gives"

    def _timed_out(self, rule: Any, document: Any) -> Iterator[str]:
        waited = seconds(document["closed_at"]) - seconds(document["opened_at"])
        if rule.since_first is None:
            yield "timed out, and its rule has no timeout"
        elif waited + ROUNDED < rule.since_first:
            yield f"timed out after {waited:.3f} s of {rule.since_first:.3f}"
