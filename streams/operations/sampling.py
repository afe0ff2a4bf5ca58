"""Counts the answers of an agent's clauses for many records. Pure: the caller reads the records. The counts hold no
value of a record: a problem is the text of a failed clause, or the reason of a dead letter."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.answering import TIME, ClauseAnswer, RecordClauses, believed
from sluicegate.streams.reading.addressed import for_us
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.windows.times import milliseconds
from sluicegate.streams.windows.units import years_away

ALONE = ("key", "until", "complete")
"""Not sampled: a key is not an expression, and the others see a group."""


@dataclass(slots=True)
class ClauseSample:
    """`outcomes` counts true, false, computed, missing (a computed null) and failed answers. `problems` counts the
    reasons of failures. `example` is topic, partition and offset of the first failure."""

    clause: str
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    example: tuple[str, int, int] | None = None

    def add(self, answer: ClauseAnswer, record: Record) -> None:
        if (why := implausible(answer, record)) is not None:
            answer = answer._replace(problem=why, failed=TIME)
        if not answer.problem:
            self.outcomes[_outcome(self.clause, answer.value)] += 1
            return
        self.outcomes["failed"] += 1
        self.problems[_problem(answer)] += 1
        place = record.topic() or "", record.partition(), record.offset()
        self.example = place if self.example is None else min(self.example, place)


def sampled(
    app: str, agent: Agent, records: Iterable[Record], proof: Callable[[Partition], HeaderProof]
) -> tuple[int, list[ClauseSample]]:
    """The number of records, and the answers of `where`, of each `let`, and of the clauses under `to` of an agent that
    forwards without lookups: rows are not looked up here. Clauses after `where` are evaluated only for records that
    `where` takes. Records that `sluicegate dead retry` wrote for other agents do not count. `proof` returns the proof
    of a partition."""
    clauses, number = RecordClauses(agent), 0
    see_rows = ("to.", "select.") if agent.lookups else ()
    names = [(at, name) for at, name in enumerate(clauses.names) if name not in ALONE and not name.startswith(see_rows)]
    samples = [(at, ClauseSample(name)) for at, name in names]
    samples.sort(key=lambda sample: sample[1].clause != "where")
    for record in records:
        partition = Partition(app, agent.name, record.topic(), record.partition())
        believes = proof(partition)
        if not for_us([record], partition, believes):
            continue
        record = believed(agent, record, believes)
        number += 1
        for at, sample in samples:
            answer = clauses.answer(at, record)
            sample.add(answer, record)
            if sample.clause == "where" and answer.value is not True:
                break
    return number, [sample for _, sample in samples]


def newest(bounds: Mapping[TopicPartition, tuple[int, int]], most: int) -> dict[TopicPartition, tuple[int, int]]:
    """The newest offsets of each partition, up to `most` in all. Each partition contributes the same number, if it has
    as many."""
    parts, rest = {}, most
    places = sorted(bounds, key=lambda place: (bounds[place][1] - bounds[place][0], place))
    for index, place in enumerate(places):
        low, high = bounds[place]
        share = min(high - low, -(-rest // (len(places) - index)))
        parts[place] = high - share, high
        rest -= share
    return parts


def implausible(answer: ClauseAnswer, record: Record) -> str | None:
    """The reason why the time of a record is most likely in another unit: it is years away from Kafka's timestamp."""
    if answer.clause != TIME or answer.problem:
        return None
    away = years_away(milliseconds(answer.value, "rfc3339", TIME), record)
    return None if away is None else f"{away}: is its `unit` right?"


def _outcome(clause: str, value: object) -> str:
    if is_condition(clause):
        return "true" if value else "false"
    return "missing" if value is None else "computed"


def is_condition(clause: str) -> bool:
    return clause == "where" or clause.startswith("to.")


def _problem(answer: ClauseAnswer) -> str:
    """The text of a problem. Errors of the user's code or of a decoder may quote the payload, so only their reason is
    kept."""
    if not answer.failed:
        return f"cannot be read: {answer.reason}"
    return answer.problem if answer.failed == answer.clause else f"{answer.failed}: {answer.problem}"
