"""The judge of a run: folds the input log by the oracle of tests/unit/aggregation and compares it with what came out.

It knows the log, the store's last picture and which processes died holding which record; nothing of how the engine got
there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.ids import dead_ids, fire_ids, output_id
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.chaos.verdict import Verdict, exact_copies
from tests.simulation import (
    correlated,
    deadlines,
    early,
    handlers,
    legs,
    merged,
    shared,
    silence,
    timers,
    windows_deployed,
)
from tests.simulation.calm import states
from tests.simulation.changed import Tiled
from tests.simulation.correlated_fold import Correlated
from tests.simulation.deadlines_fold import Deadlines
from tests.simulation.deployed import KIND, TiledByRule
from tests.simulation.early_fold import Early
from tests.simulation.fold import Fold, loads
from tests.simulation.legs_fold import Leg, Legs
from tests.simulation.merged_fold import Merged, Rekeyed, is_mark
from tests.simulation.process import APP
from tests.simulation.silence_fold import Silent
from tests.simulation.windowed_fold import Windowed
from tests.simulation.windows_deployed_fold import SessionsByRule, WindowedByRule


@dataclass
class Wanted:
    """One output that must be there: `value` its document (None: any), `line` what it must stay in order in."""

    topic: str
    key: bytes | None
    value: Any
    line: tuple[Any, ...]
    at: int  # its place in the line
    raw: bool = False  # the value as it is


def seen(message: LogRecord) -> Seen:
    return Seen(
        message.t,
        message.p,
        message.o,
        message.k,
        message.v,
        {name: (value or b"").decode(errors="backslashreplace") for name, value in message.h or ()},
    )


def distinct(messages: Sequence[Seen]) -> list[Seen]:
    """What a receiver keeps that drops repeats by shard and number."""
    first: dict[tuple[str, str], Seen] = {}
    for message in messages:
        first.setdefault(message.number, message)
    return list(first.values())


def copies(world: Any) -> list[str]:
    """Rows that are in their topics more than once; for runs in which none may be."""
    sent = [seen(message) for topic in ("mid", "out", "dead") for message in world.log.order.get(topic, [])]
    by_number, by_id = Counter(message.number for message in sent), Counter(message.id for message in sent)
    problems = [*by_number.items(), *by_id.items()]
    return [f"{what} was written {times} times" for what, times in problems if times > 1]


def judge(world: Any) -> list[str]:
    """What is wrong, a line each; empty when every promise held."""
    problems = list(world.findings)
    sent = [
        seen(message)
        for topic in ("mid", "out", "dead")
        for message in world.log.order.get(topic, [])
        if not is_mark(message.h)
    ]
    halted = {
        Partition(APP, name, *place): why for name, stopped in states(world).items() for place, why in stopped.items()
    }
    problems += _halts(world, halted)
    dead = [_of_row(row) for stored in world.store._rows.values() for row, _ in stored.dead.values()]
    verdict = Verdict()
    exact_copies(sent, verdict)
    problems += verdict.lost + ([] if world.rewound else verdict.duplicate)
    if world.plan.agents[0].scope == "shared":
        return problems + shared.judge(world)
    wanted: dict[str, Wanted] = {}
    mine = by_writer([*sent, *dead])
    for agent in world.plan.agents:
        for number in range(world.plan.partitions):
            partition = Partition(APP, agent.name, agent.topics[0], number)
            if partition not in world.rewound:
                problems += _partition(world, agent, partition, mine.get(partition, []), wanted)
    known = {message.id for message in [*sent, *dead] if Partition(*_writer(message)) in world.rewound}
    problems += _compared(
        wanted, [message for message in distinct([*sent, *dead]) if message.id not in known], world.passed
    )
    return problems


def _of_row(row: Any) -> Seen:
    return Seen(
        row.topic,
        row.partition,
        -1,
        row.key,
        row.value,
        {name: (value or b"").decode(errors="backslashreplace") for name, value in row.headers},
    )


def _writer(message: Seen) -> tuple[str, str, str, int]:
    app, agent, topic, number = message.number[0].partition(">")[0].split("/")
    return app, agent, topic, int(number)


def by_writer(messages: Sequence[Seen]) -> dict[Partition, list[Seen]]:
    """Each output once, by the input partition that it came of."""
    problems: dict[Partition, list[Seen]] = {}
    for message in distinct(messages):
        problems.setdefault(Partition(*_writer(message)), []).append(message)
    return problems


def _halts(world: Any, halted: dict[Partition, str]) -> list[str]:
    """A partition stops only where the store went back, and must where Kafka had been told of more than was left."""
    problems = [f"{partition} stopped: {why}" for partition, why in halted.items() if partition not in world.rewound]
    for partition, (version, is_known) in world.rewound.items():
        why = halted.get(partition)
        if is_known and why not in ("store-rewound", "store-wiped"):
            problems.append(
                f"{partition}: the store went back to version {version}, Kafka knew more, and nobody said so ({why})"
            )
    return problems


# -- what must be there
# ----------------------------------------------------------------------------------------------------


def _partition(
    world: Any, agent: Agent, partition: Partition, sent: Sequence[Seen], wanted: dict[str, Wanted]
) -> list[str]:
    """Adds what this partition must have sent; returns what is wrong with what it holds."""
    topic_id = world.log.ids[partition.topic]
    identify, dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
    records = _received(world.log.topics[partition.topic][partition.number])
    crashed = {
        int(message.headers["sluicegate-dead-offset"])
        for message in sent
        if message.headers.get("sluicegate-dead-reason") == "crash"
    }
    problems = _crashes(world, partition, records, crashed)
    crashed |= _cut_off(world, agent, partition, records, sent)
    fold = _folded(world, agent, partition, records, crashed, sent)
    for offset in sorted({*crashed, *(offset for offset, _ in fold.oracle.refused), *fold.failed}):
        record = next(record for record in records if record.o == offset)
        wanted[dead_id(offset)] = Wanted("dead", record.k, record.v, (partition, "dead"), offset, raw=True)
    outputs = Counter[int | tuple[int, ...]]()
    for number, key, value, topic in fold.outputs():
        id, raw = output_id(identify(number), outputs[number]), agent.forwards or bool(agent.rekeys)
        line = (partition, number if key is None and _concurrent(agent) else key)
        wanted[id] = Wanted(topic, key, value, line, fold.at(number), raw)
        outputs[number] += 1
    problems += fold.left(world, partition)
    if isinstance(fold, Fold):
        problems += timers.early(world, agent, partition, fold, sent)
    row = world.store._rows.get(partition)
    if row is None or row.claim.offset != world.log.high(partition.topic, partition.number) or row.unsent:
        problems.append(
            f"{partition}: {row and row.claim.offset} of {world.log.high(partition.topic, partition.number)} read, "
            "or rows unsent"
        )
    return problems


def _folded(
    world: Any,
    agent: Agent,
    partition: Partition,
    records: Sequence[LogRecord],
    crashed: set[int],
    sent: Sequence[Seen],
) -> Fold | Tiled | Windowed | Rekeyed | Leg | Legs | Silent:
    if world.plan.kind in windows_deployed.KINDS:
        fold = SessionsByRule if world.plan.kind == windows_deployed.SESSIONS else WindowedByRule
        return fold(world, records, crashed, sent)
    if world.plan.files:
        laid = TiledByRule if world.plan.kind == KIND else Tiled
        return laid(world, partition, records, crashed, sent)
    if world.plan.kind == legs.KIND:
        return Leg(agent, records, crashed) if agent.leg else Legs(agent, records, crashed, world.plan.partitions)
    if agent.rekeys:
        return Rekeyed(records, crashed)
    if world.plan.kind == merged.KIND:
        return Merged(agent, records, crashed, world.plan.partitions)
    if world.plan.kind == silence.KIND:
        return Silent(records, crashed)
    if agent.aggregation is not None and agent.aggregation.window is not None:
        return Windowed(agent, records, crashed)
    identify = fire_ids(partition, world.log.ids[partition.topic])
    kinds = {correlated.KIND: Correlated, early.KIND: Early, deadlines.KIND: Deadlines}
    return kinds.get(world.plan.kind, Fold)(agent, records, crashed, sent, identify)


def _received(records: Sequence[LogRecord]) -> list[LogRecord]:
    """Without the repeats of our own senders."""
    known: set[tuple[str, str]] = set()
    kept = []
    for record in records:
        number = seen(record).number
        if number == ("", "") or number not in known:
            kept.append(record)
        known.add(number)
    return kept


def _crashes(world: Any, partition: Partition, records: Sequence[LogRecord], crashed: set[int]) -> list[str]:
    """The record that ends its process is a dead letter; another only when three processes died, or stood still, at
    it."""
    poison = {record.o for record in records if record.v is not None and b"poison" in record.v}
    problems = [f"{partition}: the poison at {offset} has no dead letter" for offset in sorted(poison - crashed)]
    for offset in sorted(crashed - poison):
        names = world.marks.get((partition, offset), set()) & world.suspects
        if len(names) < 3:
            problems.append(
                f"{partition}: a dead letter says that record {offset} ended three processes; it ended {sorted(names)}"
            )
    return problems


def _concurrent(agent: Agent) -> bool:
    """Whether its calls run beside each other: messages without a key have no order then."""
    return agent.handler is not None and agent.handler.concurrency > 0


def _cut_off(
    world: Any, agent: Agent, partition: Partition, records: Sequence[LogRecord], sent: Sequence[Seen]
) -> set[int]:
    """Messages of slow handlers whose attempts were used up: those that failed, and those that a process began and did
    not end."""
    if not _concurrent(agent):
        return set()
    problems = set()
    letters = {
        int(message.headers["sluicegate-dead-offset"])
        for message in sent
        if message.headers.get("sluicegate-dead-stage") == "handler"
    }
    for record in [record for record in records if record.o in letters]:
        names = {name for name, where, number in world.cut_off if (where, number) == (partition, record.o)}
        value = loads(record.v)
        if isinstance(value, dict) and names and handlers.calls[value.get("at", -1)] + len(names) >= 3:
            problems.add(record.o)
    return problems


# -- what is there
# ---------------------------------------------------------------------------------------------------------


def _compared(wanted: dict[str, Wanted], got: Sequence[Seen], passed: set[str]) -> list[str]:
    """`passed` over by the broker: these may come late."""
    problems, there, last = [], set(), {}
    for message in got:
        should = wanted.get(message.id)
        if should is None:
            problems.append(
                f"{message.topic} {message.number}: nobody should have sent {message.value!r} of "
                f"{message.key!r} {_reason(message)}"
            )
            continue
        if message.id in there:
            problems.append(f"{message.topic}: {message.id} is there under two numbers: {message.value!r}")
        there.add(message.id)
        if not _same(should, message):
            problems.append(
                f"{message.topic} {message.number}: {message.value!r} of {message.key!r} instead of "
                f"{should.value!r} of {should.key!r}"
            )
        line = (*should.line, message.topic, message.partition)
        if (
            message.offset >= 0
            and last.get(line, -1) > should.at
            and should.line[-1] != "dead"
            and message.id not in passed
        ):
            problems.append(
                f"{message.topic}: {message.key!r} of {should.line[0][2:]} at {should.at} comes after {last[line]}"
            )
        last[line] = max(last.get(line, -1), should.at)
    return problems + [f"lost: {should}" for identity, should in wanted.items() if identity not in there]


def _reason(message: Seen) -> str:
    return " ".join(message.headers.get(f"sluicegate-dead-{name}", "") for name in ("reason", "error", "offset"))


def _same(should: Wanted, message: Seen) -> bool:
    if (should.topic, should.key) != (message.topic, message.key):
        return False
    if should.raw:
        return bool(should.value == message.value)
    document = loads(message.value)
    return isinstance(document, dict) and all(document.get(name) == value for name, value in should.value.items())
