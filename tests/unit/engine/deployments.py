"""A log, one partition, and a rule that changes while the worker is killed at any commit: what comes out is judged by
the ids that each result collected."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.contracts.values import Changes, Claim
from sluicegate.streams.operations.replaying.rewind_check import RewindCheck
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.changes import changes, policies_of
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.rewindable import why_not_rewound
from sluicegate.streams.rules.versions import Deployed, RuleVersion
from sluicegate.streams.testing.log import LogHistory
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.scene import Killed, a_log

IDS = Reducer("ids", "collect", "id")
EXTRAS: Sequence[tuple[Reducer, ...]] = (
    (),
    (Reducer("n", "count"),),
    (Reducer("total", "sum", "amount"),),
    (Reducer("most", "max", "amount"), Reducer("a_total", "sum", "amount")),
    (Reducer("last", "last", "amount"), Reducer("kinds", "distinct", "other")),
)
POLICIES = ("finish", "convert", "rewind", "flush", "drop")


def version(number: int, agent: Agent, policy: str) -> RuleVersion:
    return RuleVersion(number, rule_of(agent).digest, policy, 0.0, "test", "", agent)


def deployed(*steps: tuple[Agent, str]) -> Deployed:
    """Version 1 is the first agent."""
    return Deployed(tuple(version(number, agent, policy) for number, (agent, policy) in enumerate(steps, 1)))


def random_agent(random: random.Random) -> Agent:
    rule = Aggregation(
        key=random.choice((None, None, "other")),
        count=random.choice((2, 3, 5, 8)),
        since_first=random.choice((None, 20.0, 60.0)),
        since_last=random.choice((None, None, 15.0)),
        compute=(IDS, *random.choice(EXTRAS)),
    )
    return Agent("sums", ("in",), rule, Destination(random.choice(("out", "out2"))), "dead")


def suited(old: Agent, new: Agent) -> list[str]:
    return [policy for policy in policies_of(changes(document(old), document(new))) if policy in POLICIES]


@dataclass
class Run:
    """One run of a seed. `switches` are the offsets at which versions began. `dropped` is the number of records that
    were given when a deployment last dropped groups."""

    seed: int
    slack: int = 0
    log: Log = field(default_factory=lambda: a_log("in", "out", "out2", "dead"))
    clock: ManualClock = field(default_factory=ManualClock)
    steps: list[tuple[Agent, str]] = field(default_factory=list)
    switches: dict[int, int] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0
    rewound: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.store = memory(self.clock)
        self.kill_at = 0
        commit = self.store.commit

        def watched(claim: Claim, made: Changes) -> Claim:
            if self.kill_at == 1 and self.random.random() < 0.5:
                self.kill_at = 0
                raise Killed
            after = commit(claim, made)
            if made.source is not None:
                self.switches.setdefault(made.source.version, max(made.offset, made.source.reached))
            self.kill_at -= 1
            if self.kill_at == 0:
                raise Killed
            return after

        self.store.commit = watched  # type: ignore[method-assign]

    def driver(self) -> Driver:
        agent, _ = self.steps[-1]
        return Driver(agent, self.store, self.log, self.clock, deployed=deployed(*self.steps)).give(0)

    def give(self) -> None:
        for _ in range(self.random.randrange(1, 12)):
            record = {"id": len(self.records), "amount": self.random.randrange(9), "other": self.random.choice("xyz")}
            key = self.random.choice("abcd")
            self.records.append({**record, "key": key})
            self.log.append("in", 0, key.encode(), json.dumps(record).encode())

    def change(self) -> None:
        old, new = self.steps[-1][0], random_agent(self.random)
        if rule_of(new).digest == rule_of(old).digest:
            return
        choices = suited(old, new)
        if "rewind" in choices and self.refused(old, new):
            choices.remove("rewind")
        policy = self.chosen(choices)
        self.rewound += policy == "rewind"
        if policy == "drop":
            self.dropped = len(self.records)
        self.steps.append((new, policy))

    def chosen(self, policies: Sequence[str]) -> str:
        return self.random.choice(policies)

    def refused(self, old: Agent, new: Agent) -> list[str] | str | None:
        """Why the open groups cannot be rewound now."""
        return why_not_rewound(old, new) or RewindCheck(self.store, "app", LogHistory(self.log)).refused(
            old, deployed(*self.steps)
        )

    def play(self) -> "Run":
        self.steps.append((random_agent(self.random), "refuse"))
        driver = self.driver()
        for _ in range(self.random.randrange(4, 16)):
            act = self.random.random()
            if act < 0.5:
                self.give()
            elif act < 0.75:
                self.change()
                driver = self.driver()
            elif act < 0.85:
                driver = self.driver()  # as after a kill
            else:
                driver.later(self.random.choice((1.0, 10.0, 30.0)))
            self.kill_at = self.random.choice((0, 0, 0, 1, 2, 3))
            try:
                driver.turns(3)
            except Killed:
                driver = self.driver()
            self.kill_at = 0
        return self.ended()

    def ended(self) -> "Run":
        """All groups that are still open fire, under whatever rule they have."""
        self.kill_at = 0
        self.driver().turns(8)
        self.steps.append((random_agent(self.random), "flush"))
        self.driver().turns(8)
        self.driver().later(1000).turns(8)
        return self


class RewindRun(Run):
    """Most deployments have the policy `rewind`. A poll gives few records or none until the end, so that commits,
    kills and deployments come while records are read again."""

    few = True

    def driver(self) -> Driver:
        driver = super().driver()
        if self.few:
            source, most = driver.input, self.random.choice((1, 2, 4))
            poll, consume = source.poll, source.consume
            source.poll = lambda timeout: None if self.random.random() < 0.3 else poll(timeout)  # type: ignore[method-assign]
            source.consume = lambda wanted, timeout=0.0: consume(min(wanted, most))  # type: ignore[method-assign]
        return driver

    def chosen(self, policies: Sequence[str]) -> str:
        return "rewind" if "rewind" in policies else super().chosen(policies)

    def ended(self) -> Run:
        self.few = False
        return super().ended()


def results(run: Run) -> Iterator[tuple[dict[str, Any], str | None, int, str]]:
    """Document, digest, first offset and topic of each result, once."""
    for topic in ("out", "out2"):
        for message in distinct(run.log, topic):
            first = int((header(message, "sluicegate-first") or "").rpartition("/")[2])
            yield json.loads(message.v or b"{}"), header(message, "sluicegate-rule"), first, topic


def problems(run: Run) -> list[str]:
    """What is wrong with the results of a run."""
    complaints: list[str] = []
    rules = {rule_of(agent).short: (number, agent) for number, (agent, _) in enumerate(run.steps, 1)}
    times: Counter[int] = Counter()
    for result, digest, first, topic in results(run):
        times.update(result["ids"])
        if digest not in rules:
            complaints.append(f"a result of no rule: {result}")
            continue
        number, agent = rules[digest]
        complaints += [f"{problem} in {result} under version {number}" for problem in _wrong(run, result, agent)]
        if agent.to is None or agent.to.topic != topic:
            complaints.append(f"version {number} sent to {topic}")
        later = [at for switch, at in run.switches.items() if switch > number and at >= 0]
        same = [step for step, (other, _) in enumerate(run.steps, 1) if rule_of(other).short == digest]
        if len(same) == 1 and later and first >= min(later):
            complaints.append(f"a group that began at {first} ended under version {number}, switched at {min(later)}")
    for letter in distinct(run.log, "dead"):  # three deaths at one record
        times[json.loads(letter.v or b"{}")["id"]] += 1
        if header(letter, "sluicegate-dead-reason") != "crash":
            complaints.append("a dead letter")
    complaints += [f"record {time} is in {count} results" for time, count in times.items() if count > 1]
    lost = [record["id"] for record in run.records if record["id"] not in times]
    if any(record >= run.dropped for record in lost):
        complaints.append(f"records {lost} are in no result")
    return complaints


def _wrong(run: Run, result: dict[str, Any], agent: Agent) -> Iterator[str]:
    rule = agent.aggregation
    assert rule is not None
    records = [run.records[offset] for offset in result["ids"]]
    if len({record[rule.key or "key"] for record in records}) != 1:
        yield "two keys"
    if result["count"] != len(records):
        yield "a wrong count"
    if result["reason"] == "count" and len(records) != rule.count:
        yield "another count"
    expected = {
        "n": len(records),
        "total": sum(record["amount"] for record in records),
        "a_total": sum(record["amount"] for record in records),
        "most": max(record["amount"] for record in records),
        "last": records[-1]["amount"],
        "kinds": len({record["other"] for record in records}),
    }
    for reducer in rule.compute:
        if reducer.name in expected and result.get(reducer.name) != expected[reducer.name]:
            yield f"{reducer.name} is {result.get(reducer.name)}, not {expected[reducer.name]}"


def failing(seeds: Sequence[int], kind: type[Run] = Run) -> dict[int, list[str]]:
    """The seeds whose runs are wrong. An error of the engine is one as well."""
    lines: dict[int, list[str]] = {}
    for seed in seeds:
        try:
            if wrong := problems(kind(seed).play()):
                lines[seed] = wrong
        except Exception as error:
            lines[seed] = [repr(error)]
    return lines


__all__ = ["Log", "MemoryStore", "RewindRun", "Run", "deployed", "failing", "problems", "suppress"]
