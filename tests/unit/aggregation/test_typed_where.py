"""The typed form of `where` in the stream: it takes the same records as the exact form."""

import contextlib
import json
import random
from types import SimpleNamespace

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Aggregation, Let
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from sluicegate.streams.expressions.typed import TypedCode
from tests.unit.aggregation.turning import an_agent, record

WHERES = (
    "n > 3",
    'n > 3 && s == "x"',
    's in ["x", "y"] || n < 0',
    "done",
    "!done",
    'd.x == 1 && s.startsWith("x")',
    "twice - 1 > 8 && double(n) < 5.0",
    "done ? n > 3 : twice < 3",
    "alias == null || n > 3",
    "has(either)",
    "has(d.x) || default(n, 3) > 3",
    '(n > 3 && done) || s == "x" || (done && n < 2)',
)
WRONG_KINDS, LARGE = b'{"n": true, "s": 1, "done": 0, "d": 5}', b'{"n": 5' + b" " * 400 + b"}"
DEEP = b'{"n": 1, "done": true, "d": ' + b"[" * 70 + b"]" * 70 + b"}"
DEEPER = b'{"n": 1, "done": false, "d": {"x": ' + b"[" * 70 + b"]" * 70 + b'}, "s": ' + b"[" * 70 + b"]" * 70 + b"}"
ODD = (
    None,
    b"{",
    b"7",
    WRONG_KINDS,
    b'{"n": null}',
    b"{}",
    LARGE,
    DEEP,
    DEEPER,
    b'{"n": 4, "s": "\xff", "done": true}',
)
FORMAT = f"{__name__}:form"
form = SimpleNamespace(decode=json.loads, encode=lambda value: json.dumps(value).encode())
LETS = (Let("twice", "n * 2"), Let("alias", "s"), Let("either", "done ? s : d"), Let("unused", "message.offset"))


def values(seed: int, size: int) -> list[bytes | None]:
    chance = random.Random(seed)
    numbers: list[bytes | None] = []
    for _ in range(size):
        fields = {"n": chance.choice([0, 4, 2**70, 3.5]), "s": chance.choice(["x", "y", "z"])}
        fields |= {"done": chance.choice([True, False]), "d": {"x": chance.randrange(2)}}
        numbers.append(chance.choice(ODD) if chance.random() < 0.1 else json.dumps(fields).encode())
    return numbers


def answers(
    where: str, records: list[bytes | None], is_typed: bool, format_name: str = "json"
) -> tuple[list[int], list[tuple[int, str, str]]]:
    agent = an_agent(Aggregation(), format_name, where=where, let=LETS, max_record_bytes=350)
    rule = Rule(agent, codec(format_name))
    assert rule.where is not None
    assert rule.where.answers is not None
    if not is_typed:
        rule.where.answers = None
    groups = Groups(rule)
    kept = taken(groups, [record(offset, b"k", value) for offset, value in enumerate(records)])
    refused = [(event.record.offset(), event.reason, event.error) for event in groups.drain()]
    return [message.offset() for message in kept], refused


def differs(where: str) -> bool:
    return any(
        answers(where, records, True) != answers(where, records, False) for records in map(values, range(20), [60] * 20)
    )


@pytest.mark.parametrize("where", WHERES)
def test_both_forms_take_and_refuse_the_same_records(where: str) -> None:
    assert not differs(where)


def test_what_is_loaded_in_code_that_may_not_run_is_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the value of an earlier record would stand for that of this one."""
    where = '(s == "x" && n > 3) || n < 1'
    assert not differs(where)
    monkeypatch.setattr(TypedCode, "_perhaps", lambda self: contextlib.nullcontext())
    assert differs(where)


@pytest.mark.parametrize("where", ["has(d)", 'n > 3 && s == "x"', "n > 3 && d.x > 1", "done && size(d.x) > 1"])
def test_a_record_that_is_nested_too_deeply_is_left(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the code looks at the value or not."""
    assert not differs(where)
    monkeypatch.setattr(TypedCode, "whole", property(lambda self: False, lambda self, value: None), raising=False)
    monkeypatch.setattr(TypedCode, "scalars", lambda self: [])
    monkeypatch.setattr(TypedCode, "checks", lambda self: [])
    assert differs(where)


@pytest.mark.parametrize("where", ["n > 3", 's == "x" || done'])
def test_a_format_of_the_users_takes_the_same_records(where: str) -> None:
    records = values(1, 60)
    assert answers(where, records, True, FORMAT) == answers(where, records, False, FORMAT)
    assert answers(where, records, True, FORMAT)[0]


def test_a_where_of_other_names_has_no_typed_form() -> None:
    rule = Rule(an_agent(Aggregation(), where="unused > 3", let=LETS), codec("json"))
    assert rule.where is not None
    assert rule.where.answers is None
