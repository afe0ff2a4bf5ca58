"""Windows that are open while other versions of their rule are deployed."""

import json
from dataclasses import replace
from random import Random

from sluicegate.streams.agent import Agent, Aggregation, Reducer, Window
from sluicegate.streams.keys import CONVERT, FINISH
from tests.simulation import windowed

KIND = "windows deployed"
CALENDAR, SESSIONS = "calendar deployed", "sessions deployed"
KINDS = (KIND, CALENDAR, SESSIONS)
ZONE, BEGIN = "Europe/Berlin", 1_773_964_800_000  # ms; 2026-03-20: a day of 23 hours follows
FASTER = 17_280  # a day of the calendar is as long as 5 s of the other kinds
FAR = 10_000_000  # ms; behind the time of every other record


def policies(kind: str, agent: Agent) -> tuple[str, ...]:
    """Which sessions there are follows from the log and the rule of each. A session that finishes is not joined with
    one of the next rule: where they are judged by the log alone they are converted."""
    window = agent.aggregation.window if agent.aggregation else None
    if kind == SESSIONS:
        return (FINISH,)
    return (CONVERT,) if window is not None and window.windower.extends else (FINISH, CONVERT)


def agent(chance: Random) -> Agent:
    """Windows without revisions."""
    while True:
        made = windowed.agent(chance)
        window = made.aggregation.window if made.aggregation else None
        if window is not None and window.late != "amend":
            return made


def calendar(chance: Random) -> Agent:
    """Days of a time zone whose clocks change meanwhile."""
    grace = FASTER * chance.choice([0.0, 1.0, 4.0])
    window = Window(90_000.0, 0.0, "d", "ms", grace, idle=None, max_ahead=1e10, kind="calendar", calendar="day")
    base = windowed.agent(chance)
    return replace(
        base, aggregation=Aggregation(window=replace(window, zone=ZONE), compute=(Reducer("total", "sum", "n"),))
    )


def dated(value: bytes | None) -> bytes:
    """The value of a record with its time in days of the calendar."""
    fields = json.loads(value or b"{}")
    return json.dumps(fields | {"d": BEGIN + FASTER * fields["t"]}).encode()


def sessions(chance: Random) -> Agent:
    """Sessions that tell which records they have."""
    window = Window(1.0, 0.0, "t", "ms", chance.choice([0.0, 1.0, 4.0]), idle=None, max_ahead=1e9, kind="session")
    return replace(windowed.agent(chance), aggregation=Aggregation(window=window, compute=_listed("n")))


def _listed(field: str) -> tuple[Reducer, ...]:
    return Reducer("total", "sum", field), Reducer("all", "collect", "at")


def session_rules(base: Agent, chance: Random) -> tuple[Agent, ...]:
    """Rules that differ in a sum or a revision: each is deployed once at most."""
    rule = base.aggregation or Aggregation()
    made = [replace(base, aggregation=replace(rule, compute=_listed("nm"[number % 2]))) for number in range(8)]
    return tuple(replace(case, revision=str(number or "")) for number, case in enumerate(made))


def rules(base: Agent, chance: Random) -> tuple[Agent, ...]:
    """This rule, another sum, and two that go on with the open windows of this one."""
    rule = base.aggregation or Aggregation()
    other = replace(base, aggregation=replace(rule, compute=(Reducer("total", "sum", "m"),)))
    return base, other, replace(base, revision="2"), replace(base, having="count > 0")
