"""Records with a part that cannot be read: a dead letter `undecodable` at intake, whatever would read the record later.
The records behind it are processed as usual."""

from itertools import product
from pathlib import Path

import pytest

from sluicegate.streams.testing.driver import TestDriver

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
dead_letters: shop.dead
agents:
  pairs:
    from: orders
"""
WRONG = {
    "a number that no double holds": b"1e999",
    "with a sign": b"1E+400",
    "a negative one": b"-1e309",
    "many digits": b"9" * 4_301,
    "many digits before the point": b"9" * 400 + b".5",
    "deep nesting": b"[" * 980 + b"]" * 980,
    "a text that is not UTF-8": b'"\xe9"',
    "a name that is not UTF-8": b'{"\xe9":1}',
}
ROWS = "compute: {rows: collect}}"
RULES = {
    "count": "aggregate: {count: 2, " + ROWS,
    "timeout": "aggregate: {timeout: {after: 30s}, " + ROWS,
    "tumbling": "aggregate: {window: {tumbling: 1m, time: at}, " + ROWS,
    "session": "aggregate: {window: {session: 1m, time: at}, " + ROWS,
    "hopping": "aggregate: {window: {hopping: 1m, every: 30s, time: at}, " + ROWS,
    "amend": "aggregate: {window: {tumbling: 1m, time: at, late: {amend: 1h, every: 1m}}, " + ROWS,
    "until": 'aggregate: {count: 9, until: "group.count == 2 && v == 3", ' + ROWS,
    "repartition": "key: k\n    repartition: orders-by-k\n    aggregate: {count: 2, " + ROWS,
    "a let": "let: {half: v / 2}\n    aggregate: {count: 2, compute: {rows: collect, most: {max: half}}}",
    "shared": "scope: shared\n    aggregate: {count: 2, " + ROWS,
}
HANDLED = "    handler: tests.unit.testing.unreadable_handlers:pairs\n    to: {topic: pairs}\n"
READERS = {
    "nothing": "    to: {topic: pairs}\n",
    "having": "    having: size(rows) > 0\n    to: {topic: pairs}\n",
    "a route": '    to: [{topic: pairs, where: "rows[0].v == 2"}]\n',
    "select": '    to: {topic: pairs, select: {rows: rows, first: "rows[0].v"}}\n',
    "a handler": HANDLED,
    "a handler with a session": HANDLED + "    session: true\n",
}
AT = '"at":"2026-01-01T00:00:10Z","k":"a"'


def file_of(rule: str, reader: str) -> str:
    return f"{HEAD}    {RULES[rule]}\n{READERS[reader]}"


def outcome(path: Path, *wrong: bytes) -> tuple[list[list[int]], list[tuple[str | None, bytes | None]], list[bytes]]:
    """The values of `v` in each result, the dead letters with reason and bytes, and the bytes of the wrong records."""
    sent = [b'{"v":1,%b,"x":%b}' % (AT.encode(), text) for text in wrong]
    with TestDriver(path, partitions=1) as shop:
        for value in (*sent, *(f'{{"v":{v},{AT}}}'.encode() for v in (2, 3))):
            shop.send("orders", value, key="k")
        shop.advance("1h")
        results = [[row["v"] for row in output.value["rows"]] for output in shop.read("pairs")]
        return results, [(letter.reason, letter.raw) for letter in shop.dead_letters()], sent


COMBINED = [
    (rule, reader)
    for rule, reader in product(RULES, READERS)
    if not (rule in ("hopping", "amend", "shared") and reader.startswith("a handler"))
]


@pytest.mark.parametrize(("rule", "reader"), COMBINED)
def test_what_no_reader_can_read_is_refused_at_intake(rule: str, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(file_of(rule, reader))
    results, letters, wrong = outcome(path, *WRONG.values())
    assert letters == [("undecodable", text) for text in wrong]
    assert results == [[2, 3]] * (2 if rule == "hopping" else 1)


COUNTED = "    aggregate: {count: 1, compute: {n: count}}\n    to: {topic: pairs}\n"
CUSTOMER = "    lookup: {customer: {table: customers, column: id, key: x, fields: [name]}}\n    to: {topic: pairs}\n"
NAMED = {
    "where": '    where: "x > 1"\n' + COUNTED,
    "where with a default": '    where: "default(x, 0) < 1"\n' + COUNTED,
    "where with has": '    where: "!has(x)"\n' + COUNTED,
    "where of a forwarder": '    where: "!has(x)"\n    to: {topic: pairs}\n',
    "let": "    let: {y: x}\n    aggregate: {count: 1, compute: {n: {last: y}}}\n    to: {topic: pairs}\n",
    "until": '    aggregate: {count: 9, until: "!has(x)", compute: {n: count}}\n    to: {topic: pairs}\n',
    "a reducer of the user's": (
        "    aggregate: {count: 1, compute: {n: {reduce: tests.unit.testing.unreadable_handlers:counted}}}\n"
        "    to: {topic: pairs}\n"
    ),
    "the key of a lookup": CUSTOMER,
    "the key of a lookup beside a typed handler": (
        CUSTOMER + "    handler: tests.unit.testing.unreadable_handlers:typed\n    session: true\n"
    ),
}


@pytest.mark.parametrize("reader", NAMED)
def test_a_field_that_cannot_be_read_is_not_a_missing_field(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD + NAMED[reader])
    wrong = [b'{"v":1,"x":%b}' % text for text in WRONG.values()]
    with TestDriver(path, partitions=1) as shop:
        for value in wrong:
            shop.send("orders", value, key="k")
        assert [(letter.reason, letter.raw) for letter in shop.dead_letters()] == [
            ("undecodable", text) for text in wrong
        ]
        assert shop.read("pairs") == []


def test_a_name_that_is_not_utf8_beside_a_field_that_a_row_replaces(tmp_path: Path) -> None:
    """The row takes the place of the field, so the names of all fields are read."""
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD + CUSTOMER)
    wrong = b'{"x":"ann","customer":1,"\xe9":1}'
    with TestDriver(path, partitions=1) as shop:
        shop.put_row("customers", "ann", {"name": "Ann"})
        shop.send("orders", wrong, key="k")
        shop.send("orders", {"x": "ann", "customer": 1}, key="k")
        assert [(letter.reason, letter.raw) for letter in shop.dead_letters()] == [("undecodable", wrong)]
        assert [output.value for output in shop.read("pairs")] == [{"x": "ann", "customer": {"name": "Ann"}}]


BY_ID = "    dedupe: {id: x, horizon: 1h, on_missing: accept}\n"
DEDUPED = {
    "groups": BY_ID + COUNTED,
    "a forwarder": BY_ID + "    to: {topic: pairs}\n",
    "windows": BY_ID
    + "    aggregate: {window: {tumbling: 1m, time: at}, compute: {n: count}}\n    to: {topic: pairs}\n",
    "a handler": BY_ID + "    handler: tests.unit.testing.unreadable_handlers:typed\n    to: {topic: pairs}\n",
    "shared": BY_ID + "    scope: shared\n" + COUNTED,
}


@pytest.mark.parametrize("rule", DEDUPED)
def test_an_id_that_cannot_be_read_is_no_missing_id(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD + DEDUPED[rule])
    wrong = [b'{"v":1,%b,"x":%b}' % (AT.encode(), text) for text in WRONG.values()]
    with TestDriver(path, partitions=1) as shop:
        for value in (*wrong, *(b'{"v":2,%b}' % AT.encode(),) * 2, *(b'{"v":3,%b,"x":7}' % AT.encode(),) * 2):
            shop.send("orders", value, key="k")
        shop.advance("1h")
        assert [(letter.reason, letter.raw) for letter in shop.dead_letters()] == [
            ("undecodable", text) for text in wrong
        ]
        counted = sum(output.value.get("n", 1) for output in shop.read("pairs"))
    assert counted == 3  # two without an id, and one of the two with the same id


def test_without_the_rule_an_unreadable_id_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.streams.reading.dedupe.IdRule._is_valid", lambda self, record: True)
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD + DEDUPED["groups"])
    with TestDriver(path, partitions=1) as shop:
        shop.send("orders", b'{"v":1,"x":1e999}', key="k")
        assert (len(shop.read("pairs")), shop.dead_letters()) == (1, [])
