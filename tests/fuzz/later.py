"""Records whose fields hold what few readers take, and files of each feature that reads a record after it was taken."""

from random import Random

HEAD = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: memory://
http: false
dead_letters: dead
agents:
"""
COLLECT = "aggregate: {count: 1, compute: {rows: collect}}"
KEPT = "aggregate: {count: 1, compute: {v: {last: v}, all: {collect: v}, kinds: {distinct: v}}, on_missing: ignore}"
LAST = "aggregate: {count: 1, compute: {w: {last: w}, n: {last: n}}}"
SUMS = "aggregate: {count: 1, compute: {s: {sum: v}, m: {max: v}, a: {mean: v}}, on_missing: ignore}"
TIME = "time: t, grace: 1s"
FEATURES = {
    "having": f"a: {{from: in, {COLLECT}, having: size(rows) > 0, to: out}}",
    "having of a member": f"a: {{from: in, {COLLECT}, having: 'has(rows[0].id) || size(rows) > 0', to: out}}",
    "routes": f"a: {{from: in, {COLLECT}, to: [{{topic: out, where: size(rows) > 0}}, {{topic: out}}]}}",
    "routes by kind": "a: {from: in, to: [{topic: out, where: v == 1}, {topic: out}]}",
    "select": f"a: {{from: in, {COLLECT}, to: {{topic: out, select: {{all: rows, n: size(rows)}}}}}}",
    "select of a record": "a: {from: in, to: {topic: out, select: {w: message.value, v: v}}}",
    "let": f"a: {{from: in, let: {{w: message.value, n: string(v)}}, {LAST}, to: out}}",
    "kept values": f"a: {{from: in, {KEPT}, to: out}}",
    "numbers": f"a: {{from: in, {SUMS}, to: out}}",
    "until": "a: {from: in, aggregate: {until: v == v || true, compute: {rows: collect}}, to: out}",
    "until equals": "a: {from: in, aggregate: {count: 1, until: {field: v, equals: 1}, compute: {n: count}}, to: out}",
    "key": "a: {from: in, key: v, aggregate: {count: 1, compute: {n: count}}, to: out}",
    "dedupe": "a: {from: in, dedupe: {id: v, horizon: 1h}, aggregate: {count: 1, compute: {rows: collect}}, to: out}",
    "time": f"a: {{from: in, aggregate: {{window: {{tumbling: 1s, {TIME}}}, compute: {{rows: collect}}}}, to: out}}",
    "session": f"a: {{from: in, aggregate: {{window: {{session: 1s, {TIME}}}, compute: {{rows: collect}}}}, to: out}}",
    "hopping": f"a: {{from: in, aggregate: {{window: {{hopping: 4s, every: 2s, {TIME}}}}}, to: out}}",
    "handler": "a: {from: in, handler: 'tests.fuzz.handlers:passes', to: out}",
    "handler of a batch": f"a: {{from: in, {COLLECT}, handler: 'tests.fuzz.handlers:passes', to: out}}",
    "handler with a type": "a: {from: in, handler: 'tests.fuzz.handlers:typed', to: out}",
    "repartition": f"a: {{from: in, key: id, repartition: mid, {COLLECT}, to: out}}",
    "a table": "a: {from: in, lookup: {r: {topic: rows, key: v, fields: [v], missing: null}}, to: out}",
}
"""Agents by what reads the record. Each takes the topic `in`; each record has one result, or is a dead letter."""
ALL = (
    "aggregate: {count: 1, on_missing: ignore, compute: {n: count, s: {sum: v}, lo: {min: v}, hi: {max: v}, "
    "a: {mean: v}, f: {first: v}, l: {last: v}, d: {distinct: v}, r: collect, c: {collect: v}, "
    "o: {reduce: 'tests.fuzz.handlers:folded'}}}"
)
PASSES = "handler: 'tests.fuzz.handlers:passes'"
NARROW = "{topic: out, where: size(rows) > 0, select: {all: rows, n: size(rows)}}, {topic: out}"
FEATURES |= {
    "shared: " + name: f"a: {{from: in, scope: shared, {text}}}"
    for name, text in {
        "all reducers": f"{ALL}, to: out",
        "numbers": f"{SUMS}, to: out",
        "kept values": f"{KEPT}, to: out",
        "having": f"{COLLECT}, having: size(rows) > 0, to: out",
        "having of a member": f"{COLLECT}, having: 'has(rows[0].id) || size(rows) > 0', to: out",
        "having of a reducer": f"{ALL}, having: s == s || d >= 0 || true, to: out",
        "having that may fail": f"{ALL}, having: s / a >= lo || hi > lo || true, to: out",
        "select of what may fail": f"{COLLECT}, to: {{topic: out, select: {{x: 'rows[0].v + 1', n: size(rows)}}}}",
        "routes and select": f"{COLLECT}, to: [{NARROW}]",
        "let": f"let: {{w: message.value, n: string(v)}}, {LAST}, to: out",
        "where": f"where: v == v || true, {COLLECT}, to: out",
        "key": f"key: v, {COLLECT}, to: out",
        "dedupe": f"dedupe: {{id: v, horizon: 1h}}, {COLLECT}, to: out",
        "handler": f"{COLLECT}, {PASSES}, to: out",
        "handler of all reducers": f"{ALL}, {PASSES}, to: out",
        "handler that fails": f"{COLLECT}, handler: 'tests.fuzz.handlers:fails', retry: {{attempts: 1}}, to: out",
        "handler with a type": f"{COLLECT}, handler: 'tests.fuzz.handlers:typed_rows', to: out",
        "timeout": "aggregate: {timeout: 1s, compute: {rows: collect}}, having: size(rows) > 0, to: out",
    }.items()
}
UNCOUNTED = {"time", "session", "hopping", "dedupe", "shared: dedupe", "shared: timeout"}
"""Those in which a result has several records, or a record no result."""

LEGS = "l: {from: left, key: id}, r: {from: right, key: id}"
TIMES = "timeout: 10s, remember: 1h"
CORRELATIONS = {
    name: f"a: {{correlate: {{{text}, {TIMES}}}, {then}}}"
    for name, (text, then) in {
        "legs": (f"legs: {{{LEGS}}}", "to: out"),
        "keep all": (f"legs: {{{LEGS.replace('id}', 'id, keep: all}')}}}", "to: out"),
        "keep last": (f"legs: {{{LEGS.replace('id}', 'id, keep: last}')}}}", "to: out"),
        "where of a leg": (f"legs: {{{LEGS.replace('key', 'where: v == v || true, key')}}}", "to: out"),
        "time of a leg": (f"legs: {{{LEGS.replace('id}', 'id, time: t}')}}}", "to: out"),
        "key of the record": ("legs: {l: left, r: right}", "to: out"),
        "complete": (f"legs: {{{LEGS}}}, complete: has(l) && has(r) && (l.v == r.v || true)", "to: out"),
        "complete by size": (
            f"legs: {{{LEGS.replace('id}', 'id, keep: all}')}}}, complete: size(l) + size(r) > 1",
            "to: out",
        ),
        "having": (f"legs: {{{LEGS}}}", "having: l == r || true, to: out"),
        "having of fields": (f"legs: {{{LEGS}}}", "having: 'default(l.v, 0) == default(r.v, 0) || true', to: out"),
        "having that may fail": (
            f"legs: {{{LEGS}}}",
            "having: 'l.v + 1 > r.v || string(l.v) != string(r.v) || true', to: out",
        ),
        "select of what may fail": (f"legs: {{{LEGS}}}", "to: {topic: out, select: {x: 'l.v + r.v', y: 'size(l.v)'}}"),
        "routes and select": (
            f"legs: {{{LEGS}}}",
            "to: [{topic: out, where: 'has(l) && l.v == 1', select: {x: l, n: count, v: r.v}}, {topic: out}]",
        ),
        "select all": (
            f"legs: {{{LEGS.replace('id}', 'id, keep: all}')}}}",
            "to: {topic: out, select: {a: l, n: size(r)}}",
        ),
        "handler": (f"legs: {{{LEGS}}}", f"{PASSES}, to: out"),
        "handler of all": (f"legs: {{{LEGS.replace('id}', 'id, keep: all}')}}}", f"{PASSES}, to: out"),
        "by the clock": (f"legs: {{{LEGS}}}", "to: out"),
    }.items()
}
CORRELATIONS["by the clock"] = CORRELATIONS["by the clock"].replace(
    "timeout: 10s", "timeout: {after: 10s, clock: wall}"
)
"""Agents of two legs, which take the topics `left` and `right`. Each record is in one result, or is a dead letter."""

GOOD = b'{"id":%d,"v":1,"t":"2026-01-01T00:00:00Z"}'
NUMBERS = [b"1e999", b"-1E+400", b"9" * 4_301, b"9" * 40, b"1e-999", b"-0.0", b"0.1e1", b"1" + b"0" * 309, b"9.9e307"]
TEXTS = [
    "\\ud83d",
    "\\udc00x",
    "\\u0000",
    "9999-12-31T23:59:60Z",
    "10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "0000-00-00",
    "infinity",
    "24:00:00",
    "9" * 5_000,
    "\\u001b[2J\\u202e",
    "Ł\\u0141\\ufffe",
    "%s",
    "",
]
BROKEN = [b"NaN", b"Infinity", b"-Infinity", b"nan", b'"\xff\xfe"', b"01", b"+1", b'"\n"', b"{]", b"tru", b""]


def value(random: Random, levels: int = 3) -> bytes:
    """A value of a field, often one that few readers take."""
    match random.randrange(9 if levels else 5):
        case 0:
            return random.choice(NUMBERS)
        case 1 | 2:
            return b'"%b"' % random.choice(TEXTS).encode()
        case 3:
            return random.choice(BROKEN)
        case 4:
            return random.choice([b"null", b"true", b"1", b"1.0", b'"1"', b"-1"])
        case 5:
            return nested(random.choice([40, 63, 65, 200, 980, 5_000]))
        case 6:
            return b"[%b]" % b",".join(value(random, levels - 1) for _ in range(random.randrange(4)))
        case _:
            names = random.sample(["a", "a", "b", "\\ud800", "", "id"], random.randrange(4))
            return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value(random, levels - 1)) for name in names)


def nested(levels: int) -> bytes:
    return b"[" * levels + b"1e999" * (levels % 2) + b"]" * levels


def record(random: Random, number: int) -> bytes | None:
    """A document with such values in fields that are read, and in fields that nothing reads."""
    if random.random() < 0.03:
        return random.choice([None, b"", b"[]", b"1", b'"x"', value(random)])
    fields = {"id": b"%d" % number, "v": b"1", "t": b'"2026-01-01T00:00:00Z"', "x": b"1"}
    for name in random.sample(["id", "v", "v", "t", "x", "x"], random.choice([1, 1, 2])):
        fields[name] = value(random)
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), content) for name, content in fields.items())
