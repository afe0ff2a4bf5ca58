"""More than twenty mistakes of newcomers, with the real command and without a server: one screen, the line, the cause
and the cure, the right exit code, no traceback, and no part of a password."""

import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: STORE
dead_letters: shop.dead
agents:
"""
BASKETS = "  baskets: {from: clicks, aggregate: {count: 2, timeout: 30s}, to: baskets}\n"
GROUPS = "  baskets: {{from: clicks, aggregate: {{count: 2, {}}}, to: baskets}}\n"
HANDLED = "  baskets: {{from: clicks, handler: 'hands:{}'}}\n"
BATCHES = "  baskets: {{from: clicks, aggregate: {{count: 1}}, handler: 'hands:{}', retry: {{attempts: 1}}}}\n"
LEGS = "  pairs: {{correlate: {{legs: {{a: ta, b: tb}}, timeout: 1m, complete: '{}'}}, to: pairs}}\n"
CASE = """\
tests:
  a basket comes:
    - send: {topic: clicks, key: a, value: {amount: 1}}
    - expect: {topic: baskets, value: {spent: 1}}
"""
SECONDS = "  load: {from: clicks, aggregate: {window: {tumbling: 5m, time: {field: ts, unit: ms}}}, to: load}\n"
SECONDS_CASE = """\
tests:
  a second of 2026:
    - send: {topic: clicks, key: a, value: {ts: 1767225660}}
    - advance: 3h
    - expect: {topic: load, value: {window: {start: "2026-01-01T00:00:00.000Z"}}}
"""
WHOLE = "  baskets: {from: clicks, aggregate: {count: 1, compute: {all: collect}}, to: baskets}\n"
LATIN = """\
tests:
  a name in Latin-1:
    - send: {topic: clicks, key: a, value_base64: eyJ0Ijoi6SJ9}
    - expect: {topic: baskets, value: {count: 1}}
"""
PAIRS = "  pairs: {correlate: {legs: {a: {from: ta, key: id}, b: {from: tb, key: id}}, timeout: 15m}, to: pairs}\n"
NO_KEY = """\
tests:
  a pair comes:
    - send: {topic: ta, key: x, value: {di: "1"}}
    - send: {topic: tb, key: x, value: {id: "1"}}
    - expect: {topic: pairs, value: {count: 2}}
"""
BACKLOG = """\
tests:
  the order comes although its payment was read before it:
    - send: {topic: tb, key: x, at: +1200s, value: {id: "1", paid: 10}}
    - send: {topic: ta, key: x, at: +0s, value: {id: "1", total: 10}}
    - advance: 40m
    - expect: {topic: pairs, value: {a: {total: 10}}}
"""
HANDS = """\
def yields(value, send):
    yield 1


def returns(batch):
    return {"spent": 1}


def misspelt(value, sned):
    sned(value)


def sends(batch, send):
    send({"spent": 1})
"""
ROWS, COLUMNS = 24, 110
CANARY = "canary"


class Mistake(NamedTuple):
    """`patterns` are what the command says; the first one is the cause, the last one the cure."""

    agents: str
    patterns: list[str]
    line: int | None = None
    store: str = "sqlite:///state.db"
    command: tuple[str, ...] = ("check", "shop.yaml")
    code: int = 2


MISTAKES = {
    "postgres://": Mistake(BASKETS, ["is not a known store", "did you mean postgresql://?"], 3, "postgres://h/db"),
    "sqlite:/x": Mistake(BASKETS, ["is not a known store", "write sqlite:///file.db"], 3, "sqlite:/state.db"),
    "redsi://": Mistake(BASKETS, ["is not a known store", "did you mean redis://?"], 3, "redsi://localhost"),
    "an @ in a password": Mistake(
        BASKETS, ["has an @ that does not end user and password", "write %40 for @"], 3, f"redis://ann:{CANARY}@x@h/0"
    ),
    "a host beside the host": Mistake(
        BASKETS,
        ["leads to another machine by its host", "sslmode=verify-full"],
        3,
        f"postgresql://ann:{CANARY}@localhost/db?host=db.example",
        ("run", "shop.yaml"),
    ),
    "avg": Mistake(GROUPS.format("compute: {m: {avg: amount}}"), ["is not a reducer", "did you mean mean?"], 6),
    "a number as a duration": Mistake(GROUPS.format("timeout: 30"), ["is not a duration", "such as 30s"], 6),
    "an expression as key": Mistake(
        BASKETS.replace("{from", "{key: '\"all\"', from"), ["is not a field path", "write let: {NAME: EXPRESSION}"], 6
    ),
    "a key one level too deep": Mistake(
        GROUPS.format("key: shop"), ["agents.baskets.aggregate.key: unknown key", "did you mean agents.baskets.key?"], 6
    ),
    "repartition without a topic": Mistake(
        BASKETS.replace("{from", "{key: shop, repartition: true, from"),
        ["agents.baskets.repartition: must be text", "write the name of the topic"],
        6,
    ),
    "a store below an agent": Mistake(
        BASKETS.replace("{from", "{store: x, from"),
        ["agents.baskets.store: unknown key", "write it at the top of the file"],
        6,
    ),
    "a merge key": Mistake(
        BASKETS.replace("{from", "{<<: {start: latest}, from"),
        ["has a merge key of YAML (<<), which is not supported", "write the keys out"],
        6,
    ),
    "only drop": Mistake(BASKETS.replace("to: baskets", "to: drop"), ["is drop alone", "write {topic: NAME}"], 6),
    "a negative offset": Mistake(
        GROUPS.format("window: {tumbling: 1d, offset: -8h}"), ["is negative", "write 16h in place of -8h"], 6
    ),
    "a wrong type in complete": Mistake(
        LEGS.format('has(a) && "x" + 3 == 4'), ["correlate.complete", '"x" is text and 3 is integer', "correct"], 6
    ),
    "a circle": Mistake(
        "  one: {from: x, to: y}\n  two: {from: y, to: x}\n",
        ["comes back to this agent through two", "write to another topic, or end the circle with a where"],
        6,
    ),
    "an unknown parameter": Mistake(HANDLED.format("misspelt"), ["`sned` is unknown", "did you mean send?"], 6),
    "a handler that yields": Mistake(
        HANDLED.format("yields"), ["is a generator: a call runs nothing of it", "call send(VALUE)"], 6
    ),
    "a handler that returns": Mistake(
        BATCHES.format("returns") + CASE,
        ["none came", "handler-failed", "what it returns goes nowhere", "call send(VALUE)"],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "a misspelt field in a test": Mistake(
        "  baskets: {from: clicks, aggregate: {count: 1, compute: {spent: {sum: amuont}}}, to: baskets}\n" + CASE,
        ["none came", "missing-field: Object missing required field `amuont`"],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "an unknown error as outage": Mistake(
        HANDLED.format("misspelt").replace("sned", "send").replace("}\n", ", outage: [nosuch.Error]}\n"),
        ["there is no module nosuch", "put nosuch.py or the folder nosuch next to the file, or install it"],
        6,
    ),
    "parking what all workers share": Mistake(
        BATCHES.format("sends")
        .replace("from: clicks", "from: clicks, scope: shared")
        .replace("}}\n", "}, then: park}\n"),
        ["park needs scope partition", "leave one of the two out"],
        6,
    ),
    "seconds as milliseconds": Mistake(
        SECONDS + SECONDS_CASE,
        [
            'its window.start is "1970-01-21T10:50:00.000Z"',
            "the times in the field ts (unit: ms) are 56 years before Kafka's timestamps",
            "correct the `unit` of the time",
        ],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "a record that is not UTF-8": Mistake(
        WHOLE + LATIN,
        ["1 dead letter on shop.dead, undecodable: invalid UTF-8 at byte 6", "at clicks/0 offset 0"],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "a leg without its key": Mistake(
        PAIRS + NO_KEY,
        ["agent pairs.a: 1 dead letter on shop.dead, missing-field: Object missing required field `id`", "at ta/"],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "a backlog in another order than its times": Mistake(
        PAIRS + BACKLOG,
        ["its a is null", "late: its time is 300 s too far from", "a longer `timeout` takes both"],
        command=("test", "shop.yaml"),
        code=1,
    ),
    "an argument that is not UTF-8": Mistake(
        BASKETS,
        ["value: is not UTF-8 text", "give it in UTF-8"],
        command=("eval", "shop.yaml", "baskets", "--value", '{"t": "\udce9"}'),
    ),
    "two ids": Mistake(
        BASKETS,
        ["write one id, and before it one agent or none"],
        command=("dead", "show", "shop.yaml", "baskets", "a/0/1", "a/0/2"),
    ),
}


def one_screen(output: str) -> None:
    assert sum(max(1, math.ceil(len(line) / COLUMNS)) for line in output.splitlines()) <= ROWS, output
    assert "Traceback" not in output
    assert CANARY not in output


def test_there_are_more_than_twenty() -> None:
    assert len(MISTAKES) > 20


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_cause_and_its_cure(tmp_path: Path, name: str) -> None:
    mistake = MISTAKES[name]
    (tmp_path / "shop.yaml").write_text(HEAD.replace("STORE", mistake.store) + mistake.agents)
    (tmp_path / "hands.py").write_text(HANDS)
    done = subprocess.run(
        [SLUICEGATE, *mistake.command], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == mistake.code, output
    for pattern in mistake.patterns:
        assert pattern in output, output
    if mistake.line is not None:
        assert f"shop.yaml:{mistake.line}:" in done.stderr
    one_screen(output)
