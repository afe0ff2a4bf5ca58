"""Groups dead letters and dead rows by their cause, and selects some by a cause or an expression.

The cause is a fingerprint of the failure: the agent, the stage, the reason, the clause of the file, the line of the
user's code, and the error. Parts of the error that differ from record to record (texts in quotes, numbers, ids) are
left out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.json import document
from sluicegate.streams.aggregation.clauses import answered, answering, clause
from sluicegate.streams.contracts.headers import DEAD_CLAUSE, DEAD_WHERE, by_name
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.expressions.check import check_condition
from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.expressions.types import DOUBLE, INTEGER, TEXT, UNKNOWN, ValueType, map_of, nullable
from sluicegate.streams.operations.dead.dead_changes import DeadListing
from sluicegate.streams.operations.dead.dead_documents import of_letter, of_row
from sluicegate.streams.operations.dead.dead_letters import Letter
from sluicegate.streams.operations.dead.dead_rows import DeadOutput
from sluicegate.streams.operations.stored_messages import text_of

LONGEST = 200  # characters of an error that tell causes apart
DIFFERING = re.compile(
    r"""(?P<id>\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b)"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>[-+]?\d+(?:\.\d+)?)"""
)
MARKS = {"id": "ID", "text": "'...'", "number": "N"}
NAMES: Mapping[str, ValueType] = {
    **dict.fromkeys(("cause", "kind", "agent", "stage", "reason", "error", "topic"), TEXT),
    **dict.fromkeys(("partition", "offset", "attempts"), nullable(INTEGER)),
    "age": nullable(DOUBLE),
    "key": nullable(TEXT),
    "value": UNKNOWN,
    "headers": map_of(nullable(TEXT)),
}
"""What an expression over dead letters may name: `age` in seconds, `value` as decoded JSON, or else null."""


class DeadItem(NamedTuple):
    """A dead row or a dead letter, with its document and the fingerprint of its cause: 8 hexadecimal digits."""

    dead: DeadOutput | Letter
    shown: Mapping[str, Any]
    cause: str


class DeadCause(NamedTuple):
    """The dead rows and letters of one cause. `id` is the id of one of them. `oldest` and `newest` are ages in seconds
    (None: only rows, whose age is unknown)."""

    cause: str
    size: int
    agent: str
    stage: str
    reason: str
    oldest: float | None
    newest: float | None
    id: str
    error: str


def pattern(error: str) -> str:
    """The first line of an error, with a mark in place of each text in quotes, number and id."""
    first = error.partition("\n")[0][: 4 * LONGEST]
    return DIFFERING.sub(lambda match: MARKS[str(match.lastgroup)], first)[:LONGEST]


def _fingerprint(dead: DeadOutput | Letter, shown: Mapping[str, Any]) -> str:
    headers = by_name(dead.headers) if isinstance(dead, Letter) else by_name(())
    facts = [shown["agent"], shown["stage"], shown["reason"], pattern(shown["error"])]
    facts += [headers.text(DEAD_CLAUSE), headers.text(DEAD_WHERE)]
    return blake2b("\0".join(facts).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def causes(dead: Iterable[DeadItem]) -> list[DeadCause]:
    """The causes, the most frequent first."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in dead:
        groups.setdefault(item.cause, []).append(item.shown)
    summaries = [_summary(cause, documents) for cause, documents in groups.items()]
    return sorted(summaries, key=lambda summary: (-summary.size, summary.cause))


def _summary(cause: str, documents: Sequence[Mapping[str, Any]]) -> DeadCause:
    first = documents[0]
    ages = [document["age"] for document in documents if document["age"] is not None]
    return DeadCause(
        cause,
        len(documents),
        first["agent"],
        first["stage"],
        first["reason"],
        max(ages, default=None),
        min(ages, default=None),
        first["id"],
        pattern(first["error"]),
    )


def select(seen: DeadListing, cause: str | None, where: str | None) -> tuple[list[DeadItem], int]:
    """The rows and the letters of this cause for which the expression is true (None: all), and the number of items for
    which it has no answer. Dropped letters are left out. Raises ConfigurationError for an expression that is wrong, and
    for a cause that no item has."""
    pairs: list[tuple[DeadOutput | Letter, dict[str, Any]]] = [(row, of_row(row)) for row in seen.rows]
    pairs += [(letter, of_letter(letter, seen.retried)) for letter in seen.undropped]
    dead = [DeadItem(dead, shown, _fingerprint(dead, shown)) for dead, shown in pairs]
    if cause is not None:
        dead = [item for item in dead if item.cause == cause]
        if not dead:
            raise ConfigurationError(
                f"no dead letter and no dead row has the cause {cause}; "
                "`sluicegate dead ls --by cause` lists the causes"
            )
    return (dead, 0) if where is None else _matching(dead, where)


def divided(items: Sequence[DeadItem]) -> tuple[list[DeadOutput], list[Letter]]:
    """The rows and the letters among these items."""
    rows = [item.dead for item in items if isinstance(item.dead, DeadOutput)]
    return rows, [item.dead for item in items if isinstance(item.dead, Letter)]


def _matching(dead: Sequence[DeadItem], where: str) -> tuple[list[DeadItem], int]:
    condition = clause("--where", where)
    problems = [
        finding for finding in check_condition(condition.node, NAMES, "a dead letter") if not finding.is_warning
    ]
    if problems:
        raise ConfigurationError(f"--where: column {problems[0].column}: {problems[0].problem}")
    answer = answering(condition, lambda name: lambda names: names.get(name))
    matching, unanswered = [], 0
    for item in dead:
        try:
            if answered("--where", answer(_named(item))):
                matching.append(item)
        except EvaluationError:
            unanswered += 1
    return matching, unanswered


def _named(item: DeadItem) -> dict[str, Any]:
    record = item.dead if isinstance(item.dead, Letter) else item.dead.row
    attempts = item.shown["attempts"]
    return {
        **{name: item.shown[name] for name in NAMES if name in item.shown},
        "cause": item.cause,
        "attempts": int(attempts) if attempts.isdecimal() and len(attempts) < 10 else None,
        "key": text_of(record.key),
        "value": _json(record.value),
        "headers": {name: text_of(value) for name, value in record.headers},
    }


def _json(value: bytes | None) -> Any:
    try:
        return document(value or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
