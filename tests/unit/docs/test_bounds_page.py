"""docs/bounds.md: each limit is the one of the code, and each test that it and docs/attacker.md name exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from sluicegate.connectors.registry import avro as registry_avro
from sluicegate.schemas import avro_logical, avro_sizes, json, protobuf_values
from sluicegate.streams import cardinality, frequent, quantiles, reducers
from sluicegate.streams.agent import Agent, Aggregation, Correlation, Deduplication, Lookup, Window
from sluicegate.streams.aggregation import deadline, group_faults, groups
from sluicegate.streams.aggregation.durable import paging
from sluicegate.streams.config.text import document
from sluicegate.streams.console import letter_index, snapshot
from sluicegate.streams.contracts import mac
from sluicegate.streams.engine import worker
from sluicegate.streams.expressions import lexer, parse, times, values
from sluicegate.streams.observe import history, http
from sluicegate.streams.outbox import relay, sizes
from sluicegate.streams.ownership import owner
from sluicegate.streams.reading import receive
from sluicegate.streams.serving import calls as serving
from sluicegate.streams.shared import shared_records
from sluicegate.streams.versions import mac_keys
from sluicegate.streams.windows.cold import sessions, starts

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "bounds.md").read_text(encoding="utf-8")
ATTACKS = (PROJECT / "docs" / "attacker.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<limit>[^|]+) \| [^|]* \| `(?P<test>[^|`]+)` \|$", re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: (?:KiB|MiB|kB|MB|bytes|s|hour|days)\b)?")


def kibibytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def kilobytes(size: int) -> str:
    return f"{size // 1_000_000} MB" if size >= 1_000_000 else f"{size // 1000} kB"


def of_class(kind: type, field: str) -> int:
    """The default of a field."""
    default = kind.__dataclass_fields__[field].default  # type: ignore[attr-defined]
    assert isinstance(default, int | float)
    return int(default)


LIMITS: dict[str, list[str]] = {
    "the value": [kibibytes(of_class(Agent, "max_record_bytes"))],
    "the key": [kibibytes(groups.LONGEST_KEY), f"{shared_records.LONGEST_KEY} bytes"],
    "nesting of arrays and objects, where values are kept or passed to your code": [f"{json.DEEPEST}"],
    "a number that a rule reads; every number, where whole messages are kept or passed to your code": ["4,300"],
    "a sum of integers": [f"{reducers.MOST_DIGITS:,}"],
    "buckets of a [percentile](statistics.md#percentiles) in a group": [f"{quantiles.MOST_BUCKETS:,}"],
    "the state of `approx_distinct` in a group": [kibibytes(cardinality.REGISTERS)],
    "values that `top` keeps in a group": [f"{frequent.TIMES}", f"{frequent.LEAST}"],
    "the time ahead of the worker's clock": [f"{of_class(Window, 'max_ahead') // 3600} hour"],
    f"records of a partition that are processed together, if one of them has {kibibytes(worker.LARGE)} or more": [
        f"{worker.SMALL_CHUNK}"
    ],
    "the time that such records of a partition take together, beside other partitions of a worker": [
        f"{worker.SLOW} s"
    ],
    "crashes of the process, or errors of the engine, at one record": [f"{group_faults.DEATHS}"],
    "Avro: digits of a decimal": [f"{avro_logical.MOST_DIGITS:,}"],
    "Avro: types of a schema; a type that is used several times counts each time": [f"{avro_sizes.MOST_TYPES:,}"],
    "Avro: references of a schema in the registry": [f"{registry_avro.MOST_REFERENCES}"],
    "Protobuf: nested messages of type `Any`": [f"{protobuf_values.MOST_INSIDE}"],
    "Protobuf: fields of all messages of a record": [f"{protobuf_values.MOST_VALUES:,}"],
    "the instant of a [deadline from the data](deadlines.md)": ["1970", f"{deadline.LAST_YEAR}"],
    "the text": [f"{lexer.MAX_CHARACTERS:,}", f"{parse.MAX_NODES}", f"{parse.MAX_LEVELS}"],
    "one evaluation": [f"{values.MAX_STEPS:,}"],
    "the size of computed lists and maps": ["100", kilobytes(values.MAX_STEPS * 100)],
    "the argument of `duration`": [f"{times.LONGEST_TEXT}"],
    "a group": [f"{of_class(Aggregation, 'max_items'):,}", kilobytes(of_class(Aggregation, "max_bytes"))],
    "the groups of a partition": [
        f"{of_class(Aggregation, 'max_groups'):,}",
        kibibytes(of_class(Aggregation, "max_buffered_bytes")),
    ],
    "windows of a partition that have groups in the store": [f"{starts.MOST_STARTS:,}"],
    "sessions in the store: intervals, each as long as the gap, in which they end": [f"{sessions.MOST_ENDS}"],
    "the groups of a partition in memory": [f"{of_class(Aggregation, 'hot_groups'):,}"],
    "the collected values of a group in the store": [kibibytes(paging.ROW_BYTES), f"{paging.PART:,}"],
    "an output": [kilobytes(sizes.MESSAGE_BYTES), kibibytes(sizes.LARGEST)],
    "a dead letter": [kibibytes(sizes.LONGEST_HEAD)],
    "dead rows, which Kafka refuses": [kibibytes(relay.MOST_DEAD)],
    "unsent rows in memory": [f"{relay.IN_MEMORY:,}", kibibytes(relay.IN_MEMORY_BYTES)],
    "items that wait for another try of their handler": [f"{owner.MOST_HELD:,}"],
    "ids that `dedupe` remembers": [f"{of_class(Deduplication, 'max_ids'):,}"],
    "ended keys of correlations": [f"{of_class(Correlation, 'max_keys'):,}"],
    "[shards](glossary.md#outputs) of senders that are remembered": [
        f"{receive.MOST_SENDERS:,}",
        "530 bytes",
        f"{int(receive.FORGET_AFTER) // 86_400} days",
    ],
    "shards without a [proof](protocol.md#proof)": [f"{receive.MOST_UNPROVEN:,}"],
    "names of headers that a worker remembers": [f"{mac.MOST_NAMES:,}", f"{mac.LONGEST_NAME}"],
    "name of a shard": [f"{receive.LONGEST_NAME:,} bytes"],
    "numbers that are remembered of a shard": [f"{receive.WINDOW:,}"],
    "time after `keys rotate` until the new key is used": [f"{mac_keys.SIGNS_AFTER:.0f} s"],
    "how often forged MACs make a process read the keys again": [f"{mac_keys.READ_EVERY:.0f} s"],
    "how long earlier keys are accepted": [f"{int(mac_keys.KEEP) // 86_400} days"],
    "a record of a topic as a table": [kibibytes(of_class(Agent, "max_record_bytes"))],
    "numbers in the headers of a dead letter that is read again": ["9", "18"],
    "rows of a topic as a table": [f"{of_class(Lookup, 'max_rows'):,}", kibibytes(of_class(Lookup, "max_table_bytes"))],
    "the file": [
        kibibytes(document.LARGEST),
        f"{document.DEEPEST}",
        f"{document.MOST_ALIASES}",
        f"{document.MOST_VALUES:,}",
    ],
    "the request line and headers": [kibibytes(http.HEAD_BYTES)],
    "the body of a request": [kibibytes(http.BODY_BYTES)],
    "the time in which a request must arrive": [f"{http.READ_SECONDS:.0f} s"],
    "connections at a time": [f"{http.CONNECTIONS}"],
    "groups of a key in an answer of the state API": [f"{serving.PAGE}", kibibytes(serving.PAGE_BYTES)],
    "the last hour in the memory of the supervisor, with `console: true`": [
        f"{history.SAMPLES}",
        f"{history.SERIES}",
        f"{history.ERRORS}",
        f"{history.LONGEST:,}",
        kilobytes(history.MOST_BYTES),
    ],
    "open groups in the list of the console": [f"{snapshot.MOST_GROUPS:,}"],
    "groups in memory of a partition that the console reads": [f"{snapshot.LARGEST_PARTITION:,}"],
    "dead letters in the list of the console": [f"{letter_index.MOST:,}", f"{letter_index.LEAST:,}"],
    "calls of the console and the state API at a time": [f"{http.CALLS}"],
}
"""The numbers of a limit, in the order of the page. 4,300 digits are Python's; 530 bytes are measured."""


def differences(page: str) -> list[str]:
    """The rows whose numbers are not those of the code, and rows of the code that the page lacks."""
    rows = {row["what"]: row["limit"] for row in ROW.finditer(page)}
    wrong = [f"{what}: the page lacks it" for what in LIMITS if what not in rows]
    for what, limit in rows.items():
        numbers, expected = [text.strip() for text in NUMBER.findall(limit)], LIMITS.get(what, [])
        if numbers != expected:
            wrong.append(f"{what}: the page says {numbers}, the code {expected}")
    return wrong


@cache
def functions(file: str) -> frozenset[str]:
    path = PROJECT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def unknown(page: str) -> list[str]:
    """The tests that do not exist."""
    tests = [row["test"].partition("::") for row in ROW.finditer(page)]
    return [f"{file}::{name}" for file, _, name in tests if name not in functions(file)]


def test_every_limit_is_the_one_of_the_code() -> None:
    assert differences(PAGE) == []


def test_every_row_names_a_test_that_exists() -> None:
    assert len(ROW.findall(PAGE)) == sum(line.startswith("| ") for line in PAGE.splitlines()) - PAGE.count("| what |")
    assert unknown(PAGE) == []


@pytest.mark.parametrize(("written", "other"), [("| 32 |", "| 33 |"), ("| 16 MiB of", "| 17 MiB of")])
def test_twin_another_limit_is_found(written: str, other: str) -> None:
    assert written in PAGE
    assert len(differences(PAGE.replace(written, other))) == 1


def test_every_attack_names_a_test_that_exists() -> None:
    assert len(ROW.findall(ATTACKS)) >= 16
    assert unknown(ATTACKS) == []


def test_twin_a_test_that_is_gone_is_found() -> None:
    name = ROW.findall(PAGE)[0][-1]
    assert unknown(PAGE.replace(name, f"{name}_gone")) == [f"{name}_gone"]
