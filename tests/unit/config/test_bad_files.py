"""Every mistake is one line: where, which key, what is wrong, what to do."""

import pytest

from tests.unit.config.files import GOOD, HEAD, agent, lines, loaded

NAMES = "use only letters, digits and . _ - (at most"

STORE_SCHEMES = (
    "memory://, sqlite://, redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, "
    "rediss+cluster://"
)
STORE_SCHEMES += ", postgresql://, mysql://, mariadb://, mongodb://, mongodb+srv://"
NO_SERVER = (
    "f.yaml:3:1: store: names no server, or an invalid port; write a host, or host:port with a port of 1 "
    "to 65535, as in "
)

TOP = [
    ("", ["f.yaml:1:1: file: is not a mapping; write `app: NAME` and the other keys at the top"]),
    ("- a", ["f.yaml:1:1: file: is not a mapping; write `app: NAME` and the other keys at the top"]),
    (
        HEAD
        + """\
agents:
  a: {from: orders, history: ended, aggregate: {count: 10}, to: {topic: totals}}
  b: {from: others, history: ended, aggregate: {count: 10}, to: {topic: totals}}
""",
        ["f.yaml:7:21: agents.b.history: is ended, which agent a writes its history to; give it a topic of its own"],
    ),
    (
        GOOD + "schedules: {daily: {every: 1h, topic: shop.dead, value: {}}}\n",
        [
            "f.yaml:10:32: schedules.daily.topic: is shop.dead, which dead letters of agent a go to; give it a topic "
            "of its own"
        ],
    ),
    (GOOD.replace("app: shop", "app: my shop"), [f"f.yaml:1:1: app: is not a name; {NAMES} 100)"]),
    (
        GOOD.replace("app: shop", "ap: shop"),
        [
            "f.yaml:1:1: ap: unknown key; did you mean app?",
            "f.yaml:1:1: app: is missing; write a name, such as app: flights",
        ],
    ),
    (
        GOOD.replace("store: sqlite:///state.db", "store: oracle://x"),
        ["f.yaml:3:1: store: is not a known store; write a URL that begins with " + STORE_SCHEMES],
    ),
    (
        GOOD.replace("sqlite:///state.db", "sqlite://state.db"),
        [
            "f.yaml:3:1: store: names no SQLite file; write sqlite:///file.db, or sqlite:////folder/file.db for an "
            "absolute path"
        ],
    ),
    (GOOD.replace("sqlite:///state.db", "redis:///0"), [NO_SERVER + "redis://host:6379/0"]),
    (GOOD.replace("sqlite:///state.db", "redis://:x@h:port/0"), [NO_SERVER + "redis://host:6379/0"]),
    (GOOD.replace("sqlite:///state.db", "redis+sentinel://h,i:65536/main"), [NO_SERVER + "redis://host:6379/0"]),
    (GOOD.replace("sqlite:///state.db", "postgresql://u:x@h:port/db"), [NO_SERVER + "postgresql://host/database"]),
    (GOOD.replace("sqlite:///state.db", "mongodb://a,b:0"), [NO_SERVER + "mongodb://host/database"]),
    (
        GOOD + "start_timeout: 30\n",
        ["f.yaml:10:1: start_timeout: is not a duration; write one number and ms, s, m, h or d, such as 30s"],
    ),
    (
        GOOD + "start_timeout: 0s\n",
        ["f.yaml:10:1: start_timeout: is out of range; write more than 0 and at most 3650d"],
    ),
    (
        GOOD + "auto_migrate: yes\n",
        ["f.yaml:10:1: auto_migrate: must be true or false; write one of the two, without quotes"],
    ),
    (
        GOOD + "accept_level: any\n",
        ["f.yaml:10:1: accept_level: must be durable, lossy or volatile; write one of these words"],
    ),
    (GOOD + "http: {port: 70000}\n", ["f.yaml:10:8: http.port: must be at most 65535; write a number in that range"]),
    (
        GOOD + "http: {host: 0.0.0.0}\n",
        [
            "f.yaml:10:8: http.host: is not loopback and there is no token; write http.token: ${HTTP_TOKEN}, or keep "
            "host: 127.0.0.1"
        ],
    ),
    *(
        (
            GOOD + f"http: {{token: '{token}'}}\n",
            [
                "f.yaml:10:8: http.token: has fewer than 16 characters: it could be guessed; write one that `openssl "
                "rand -hex 32` makes"
            ],
        )
        for token in ("", "x", "012345678901234", " " * 20, "\u3164" * 20)
    ),
    (GOOD + "http: 9464\n", ["f.yaml:10:1: http: must be a mapping; write {port: 9464, host: 127.0.0.1}, or false"]),
    (HEAD, ["f.yaml:1:1: agents: is missing; write the agents' names as keys below it"]),
    (HEAD + "agents: {}\n", ["f.yaml:5:1: agents: there is no agent; write at least one agent under `agents`"]),
    (HEAD + "agents: [a]\n", ["f.yaml:5:1: agents: must be a mapping; write the agents' names as keys below it"]),
    (GOOD.replace("  a:\n", "  a b:\n"), [f"f.yaml:6:3: agents.a b: is not a name; {NAMES} 100)"]),
    (GOOD.replace("  a:\n", '  "a\\nb":\n'), [f"f.yaml:6:3: agents.a\\nb: is not a name; {NAMES} 100)"]),
]


@pytest.mark.parametrize(("text", "expected"), TOP)
def test_a_mistake_at_the_top_is_named(tmp_path, text, expected):
    file = loaded(tmp_path, text)
    assert lines(file.problems, tmp_path) == expected
    assert file.app is None


FROM = "from: orders"
COUNT = "aggregate: {count: 10}"
TO = "to: {topic: totals}"
IN_AGGREGATE = "agents.a.aggregate"
AGENT = [
    (
        "from: orders",
        [
            "6:3: agents.a: does nothing: it has no aggregate, no handler and no to; write to: {topic: NAME} to "
            "forward each record, or add an aggregate or a handler"
        ],
    ),
    (f"{FROM}\n{COUNT}\nto: true", ["9:5: agents.a.to: must be text; write the topic's name, or {topic: NAME}"]),
    (
        f"{FROM}\n{COUNT}\nto: drop",
        [
            "9:5: agents.a.to: is drop alone: nothing would be written; write {topic: NAME}, or a list of "
            "{topic: NAME, where: EXPRESSION}, whose last entry may be drop"
        ],
    ),
    (
        f"{FROM}\nkey: '\"all\"'\n{COUNT}\n{TO}",
        [
            "8:5: agents.a.key: is not a field path; write let: {NAME: EXPRESSION} for a computed value, "
            "and its NAME here"
        ],
    ),
    (
        f"{FROM}\n<<: {{count: 1}}\n{COUNT}\n{TO}",
        [
            "8:5: agents.a: has a merge key of YAML (<<), which is not supported; write the keys out; an anchor and an "
            "alias for a whole value work (&name, *name)"
        ],
    ),
    (f"{FROM}\n{COUNT}\nto: {{topic: a b}}", [f"9:10: agents.a.to.topic: is not a topic name; {NAMES} 249)"]),
    (
        f"{FROM}\nformat: xml\n{COUNT}\n{TO}",
        ["8:5: agents.a.format: is not a format; write json, avro, protobuf, json-schema, raw or module:codec"],
    ),
    (f"{FROM}\nformt: json\n{COUNT}\n{TO}", ["8:5: agents.a.formt: unknown key; did you mean format?"]),
    (f"{FROM}\ncount: 3\n{COUNT}\n{TO}", ["8:5: agents.a.count: unknown key; did you mean aggregate.count?"]),
    (f"{FROM}\nfilter: v > 3\n{COUNT}\n{TO}", ["8:5: agents.a.filter: unknown key; did you mean where?"]),
    (f"{FROM}\ngroup_by: user\n{COUNT}\n{TO}", ["8:5: agents.a.group_by: unknown key; did you mean aggregate.key?"]),
    (f"{FROM}\nzzz: 1\n{COUNT}\n{TO}", ["8:5: agents.a.zzz: unknown key; `sluicegate schema` lists the known ones"]),
    (
        f"{FROM}\nhandler: a:b\n{COUNT}\n{TO}",
        ["8:5: agents.a.handler: a:b: there is no module a; put a.py or the folder a next to the file, or install it"],
    ),
    (
        f"{FROM}\nhandler: os.path:sep",
        ["8:5: agents.a.handler: os.path:sep: is not a function; correct the function, or the name"],
    ),
    (
        f"{FROM}\nhandler: []",
        ["8:5: agents.a.handler: names no function; write package.module:function, or a list of them"],
    ),
    (
        f"{FROM}\nhandler: operator:add",
        [
            "8:5: agents.a.handler: handler operator:add: `b` is unknown; there are message, batch, value, key, "
            "raw_key, headers, context, "
            "session, lookups, send, schedule, cancel, together, id, attempt, log"
        ],
    ),
    (
        f"{FROM}\nkey: a.b\nhandler: builtins:len",
        ["8:5: agents.a.key: has no meaning without an aggregation: a handler gets every message; leave it out"],
    ),
    (
        f"{FROM}\nsession: true\nthen: stop\n{COUNT}\n{TO}",
        [
            "8:5: agents.a.session: belongs to a handler, but there is none; add a handler, or leave it out",
            "9:5: agents.a.then: belongs to a handler, but there is none; add a handler, or leave it out",
        ],
    ),
    (
        f"{FROM}\nhandler: builtins:len\nsession: true\nconcurrency: 4",
        [
            "9:5: agents.a.session: needs concurrency 0: a slow handler would hold the store's transaction open; "
            "leave one of them out"
        ],
    ),
    (
        f"{FROM}\nhandler: builtins:len\nretry: {{attempts: 2, isolate_after: 3}}\n{TO}",
        [
            "9:26: agents.a.retry.isolate_after: has no messages to try alone: the handler gets no group that keeps "
            "them; "
            "add compute: {messages: collect} to the aggregate, or leave it out",
            "9:26: agents.a.retry.isolate_after: is more than attempts: it would never happen; write at most the "
            "number of attempts",
        ],
    ),
    (
        f"{FROM}\non_error: {{decode: ignore, produce: dead-letter, handler: stop}}\n{COUNT}\n{TO}",
        [
            "8:16: agents.a.on_error.decode: must be dead-letter, skip, stop or wait; write one of these words",
            "8:32: agents.a.on_error.produce: must be dead or stop; write one of these words",
            "8:54: agents.a.on_error.handler: unknown key; known here: decode, produce, expression, stop_above",
        ],
    ),
    (
        f"{FROM}\non_error: stop\n{COUNT}\n{TO}",
        [
            "8:5: agents.a.on_error: must be a mapping; write {decode: dead-letter, produce: dead, "
            "expression: dead-letter}"
        ],
    ),
    (
        f"{FROM}\nhandler: builtins:len\nretry: {{attempts: 0, backoff: 1s}}\nthen: park\n{TO}",
        [
            "9:13: agents.a.retry.attempts: must be at least 1; write a number in that range",
            "9:26: agents.a.retry.backoff: is not a span of durations; write the shortest and the longest, such as "
            "1s..60s",
        ],
    ),
    (
        f"{FROM}\nrepartition: t\n{COUNT}\n{TO}",
        ["8:5: agents.a.repartition: needs a key: the field to re-key by; add key: FIELD, or leave it out"],
    ),
    (
        f"{FROM}\nkey: a\nrepartition: t\ndedupe: {{id: key}}\n{COUNT}\n{TO}",
        ["10:14: agents.a.dedupe.id: is the key, but repartition gives another one; write header:NAME or a field path"],
    ),
    (
        f"{FROM}\nkey: a\nrepartition: orders\n{COUNT}\n{TO}",
        ["9:5: agents.a.repartition: is a topic that this agent reads already; give it a topic of its own"],
    ),
    (
        f"{FROM}\nscope: global\n{COUNT}\n{TO}",
        ["8:5: agents.a.scope: must be partition or shared; write one of these words"],
    ),
    (
        f"{FROM}\nstart: tomorrow\n{COUNT}\n{TO}",
        ["8:5: agents.a.start: is not a start; write earliest, latest or a time such as 2026-01-31T00:00:00Z"],
    ),
    (
        f"{FROM}\nstart: 2026-01-31T00:00:00\n{COUNT}\n{TO}",
        ["8:5: agents.a.start: is not a start; write earliest, latest or a time such as 2026-01-31T00:00:00Z"],
    ),
    (
        f"{FROM}\nmax_record_bytes: 5\n{COUNT}\n{TO}",
        ["8:5: agents.a.max_record_bytes: is not a size; write a number and B, kB, KiB, MB, MiB or GiB, such as 4MiB"],
    ),
    (
        f"{FROM}\nkey: a..b\n{COUNT}\n{TO}",
        ["8:5: agents.a.key: is not a field path; write field names joined by dots, such as customer.id"],
    ),
    (
        f"{FROM}\nkey: {{path: a}}\n{COUNT}\n{TO}",
        ["8:5: agents.a.key.field: is missing; add it", "8:11: agents.a.key.path: unknown key; known here: field"],
    ),
    (
        f"from: []\n{COUNT}\n{TO}",
        ["7:5: agents.a.from: names no topic; write a topic, a list of topics, or {topic: NAME, dedupe: sluicegate}"],
    ),
    (f"from: [a, b c]\n{COUNT}\n{TO}", [f"7:15: agents.a.from[1]: is not a topic name; {NAMES} 249)"]),
    (f"from: [a, a]\n{COUNT}\n{TO}", ["7:5: agents.a.from: names a topic twice; name each topic once"]),
    (
        f"from: {{topic: a, dedupe: me}}\n{COUNT}\n{TO}",
        ["7:22: agents.a.from.dedupe: must be sluicegate; write sluicegate"],
    ),
    (
        f"from: totals\n{COUNT}\n{TO}",
        [
            "9:10: agents.a.to.topic: is a topic that this agent reads: it would read its own results; write to "
            "another topic"
        ],
    ),
    (
        f"{FROM}\nhistory: orders\n{COUNT}\n{TO}",
        ["8:5: agents.a.history: is a topic that this agent reads; give it a topic of its own"],
    ),
    (
        f"{FROM}\nhistory: totals\n{COUNT}\n{TO}",
        ["10:10: agents.a.to.topic: is totals, which agent a writes its history to; give it a topic of its own"],
    ),
    (
        f"{FROM}\nhistory: shop.dead\n{COUNT}\n{TO}",
        ["8:5: agents.a.history: is shop.dead, which dead letters of agent a go to; give it a topic of its own"],
    ),
    (
        f"{FROM}\nhistory: keyed\nkey: a\nrepartition: keyed\n{COUNT}\n{TO}",
        ["10:5: agents.a.repartition: is keyed, which agent a writes its history to; give it a topic of its own"],
    ),
    (
        f"{FROM}\n{COUNT}\nto: {{topic: shop.dead}}",
        ["9:10: agents.a.to.topic: is shop.dead, which dead letters of agent a go to; give it a topic of its own"],
    ),
    (
        f"{FROM}\nkey: a\nrepartition: shop.dead\n{COUNT}\n{TO}",
        ["9:5: agents.a.repartition: is shop.dead, which dead letters of agent a go to; give it a topic of its own"],
    ),
    (
        f"{FROM}\nhistory: ended\nscope: shared\n{COUNT}\n{TO}",
        [
            "8:5: agents.a.history: needs scope partition: a replay reads it for the groups of a partition, and these "
            "groups have records of several; leave one of the two out"
        ],
    ),
    (
        f"{FROM}\nhistory: ended\n{TO}",
        ["8:5: agents.a.history: has no meaning without groups; leave it out, or add an aggregate"],
    ),
    (
        f"from: shop.dead\n{COUNT}\n{TO}",
        [
            "4:1: dead_letters: is a topic that this agent reads: it would read its own dead letters; let dead "
            "letters go to another topic"
        ],
    ),
    (
        f"{FROM}\ndedupe: header:id\n{COUNT}\n{TO}",
        ["8:5: agents.a.dedupe: must be a mapping; write {id: header:NAME, horizon: 1h}"],
    ),
    (
        f"{FROM}\ndedupe: {{horizon: 1h}}\n{COUNT}\n{TO}",
        ["8:5: agents.a.dedupe.id: is missing; write header:NAME, a field path, or key"],
    ),
    (
        f"{FROM}\ndedupe: {{id: 'header:', hroizon: 1h}}\n{COUNT}\n{TO}",
        [
            "8:14: agents.a.dedupe.id: does not name the place of the id; write header:NAME, a field path, or key",
            "8:29: agents.a.dedupe.hroizon: unknown key; did you mean horizon?",
        ],
    ),
    (
        f"{FROM}\ndedupe: {{id: {{header: a, field: b}}, on_missing: skip}}\n{COUNT}\n{TO}",
        [
            "8:14: agents.a.dedupe.id: does not name the place of the id; write header:NAME, a field path, or key",
            "8:41: agents.a.dedupe.on_missing: must be dead-letter or accept; write one of these words",
        ],
    ),
    (
        f"{FROM}\ndedupe: {{id: a..b, horizon: 1, max_ids: 0}}\n{COUNT}\n{TO}",
        [
            "8:14: agents.a.dedupe.id: is not a field path; write field names joined by dots, such as customer.id",
            "8:24: agents.a.dedupe.horizon: is not a duration; write one number and ms, s, m, h or d, such as 30s",
            "8:36: agents.a.dedupe.max_ids: must be at least 1; write a number in that range",
        ],
    ),
    (
        f"{FROM}\nformat: raw\ndedupe: {{id: a}}\n{COUNT}\n{TO}",
        ["9:14: agents.a.dedupe.id: needs a field, but raw records have none; use format: json, header:NAME or key"],
    ),
    (
        f"{FROM}\nthrottle: 100/s\n{COUNT}\n{TO}",
        ["8:5: agents.a.throttle: must be a mapping; write {limit: 100, per: 1s}"],
    ),
    (
        f"{FROM}\naggregate: {{count: 1, hot_groups: many}}\n{TO}",
        ["8:27: agents.a.aggregate.hot_groups: must be a whole number; write a whole number, such as 100000"],
    ),
    (
        f"{FROM}\nlookup: {{customer: {{table: customers, key: a}}}}\n{TO}",
        [
            "8:14: agents.a.lookup.customer.fields: is missing; write the fields of the row that are added, such as "
            "[name, tier]"
        ],
    ),
    (
        f"correlate: {{orders: {{topic: orders}}, timeout: 5m}}\n{TO}",
        [
            "7:5: agents.a.correlate.legs: is missing; write NAME: TOPIC, or NAME: {from: TOPIC, key: FIELD}, for "
            "each leg",
            "7:17: agents.a.correlate.orders: unknown key; known here: legs, complete, timeout, remember, late, "
            "through, max_keys, max_groups, hot_groups",
        ],
    ),
    (
        f"correlate: [orders, payments]\n{TO}",
        ["7:5: agents.a.correlate: must be a mapping; write {legs: {NAME: TOPIC, OTHER: TOPIC}, timeout: 15m}"],
    ),
    (
        f"{FROM}\nemit: on change\n{COUNT}\n{TO}",
        ["8:5: agents.a.emit: must be a mapping; write {every: 10s}, {count: 100} or {on: change}"],
    ),
    (
        f"{FROM}\nformat: raw\nkey: a\naggregate: "
        f"{{count: 1, until: {{field: x, equals: 1}}, compute: {{s: {{sum: y}}, n: count}}}}\n{TO}",
        [
            "9:5: agents.a.key: needs a field, but raw records have none; use format: json, or leave the field out",
            "10:27: agents.a.aggregate.until: needs a field, but raw records have none; use format: json, or leave "
            "the field out",
            "10:67: agents.a.aggregate.compute.s: needs a field, but raw records have none; use format: json, or "
            "leave the field out",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), AGENT)
def test_a_mistake_in_an_agent_is_named(tmp_path, text, expected):
    assert lines(loaded(tmp_path, agent(text)).problems, tmp_path) == [f"f.yaml:{line}" for line in expected]


RULE = [
    ("count: 0", ["8:17: agents.a.aggregate.count: must be at least 1; write a number in that range"]),
    ("count: 1.5", ["8:17: agents.a.aggregate.count: must be a whole number; write a whole number, such as 100"]),
    ('count: "10"', ["8:17: agents.a.aggregate.count: must be a whole number; write a whole number, such as 100"]),
    ("count: true", ["8:17: agents.a.aggregate.count: must be a whole number; write a whole number, such as 100"]),
    ("count: 10, cuont: 10", ["8:28: agents.a.aggregate.cuont: unknown key; did you mean count?"]),
    (
        "count: 10, timeout: 30",
        ["8:28: agents.a.aggregate.timeout: is not a duration; write one number and ms, s, m, h or d, such as 30s"],
    ),
    (
        "timeout: {}",
        [
            "8:17: agents.a.aggregate.timeout: mixes the forms of a timeout; write {after: 30s, since: first}, or "
            "{first: 30s, last: 5s}"
        ],
    ),
    (
        "timeout: {after: 1s, last: 2s}",
        [
            "8:17: agents.a.aggregate.timeout: mixes the forms of a timeout; write {after: 30s, since: first}, or "
            "{first: 30s, last: 5s}"
        ],
    ),
    (
        "timeout: {first: 1s, since: last}",
        [
            "8:17: agents.a.aggregate.timeout: mixes the forms of a timeout; write {after: 30s, since: first}, or "
            "{first: 30s, last: 5s}"
        ],
    ),
    (
        "timeout: {cancel: done}",
        [
            "8:17: agents.a.aggregate.timeout: has cancel, but no record gives the deadline; write at: FIELD or "
            "after: EXPRESSION, or leave it out"
        ],
    ),
    (
        "timeout: {after: 1s, since: middle}",
        ["8:38: agents.a.aggregate.timeout.since: must be first or last; write one of these words"],
    ),
    (
        "timeout: {after: 1 s}",
        [
            "8:27: agents.a.aggregate.timeout.after: is not a duration; write one number and ms, s, m, h or d, such as "
            "30s"
        ],
    ),
    *(
        (
            f"timeout: {{after: {wrong}}}",
            [
                "8:27: agents.a.aggregate.timeout.after: is not a duration; write one number and ms, s, m, h or d, "
                "such as 30s"
            ],
        )
        for wrong in ("1h30m", "1h 30m", "PT30S", "P1DT2H")
    ),
    (
        "until: {field: a}",
        ["8:17: agents.a.aggregate.until.equals: is missing; write the value that completes the group"],
    ),
    (
        "until: {field: a, equals: [1]}",
        ["8:35: agents.a.aggregate.until.equals: must be one value; write text, a number, true, false or null"],
    ),
    (
        "until: {field: a, equals: .inf}",
        ["8:35: agents.a.aggregate.until.equals: is not a finite number; write a number that JSON has"],
    ),
    ("count: 1, compute: {x: sum}", ["8:37: agents.a.aggregate.compute.x: is not a reducer; write {sum: FIELD}"]),
    (
        "count: 1, compute: {x: reduce}",
        ["8:37: agents.a.aggregate.compute.x: is not a reducer; write {reduce: module:function}"],
    ),
    ("count: 1, compute: {x: {avg: a}}", ["8:37: agents.a.aggregate.compute.x: is not a reducer; did you mean mean?"]),
    ("count: 1, compute: {x: {maxx: a}}", ["8:37: agents.a.aggregate.compute.x: is not a reducer; did you mean max?"]),
    (
        "count: 1, compute: {x: {sum: a, max: b}}",
        ["8:37: agents.a.aggregate.compute.x: is not a reducer; write count, collect, or {sum: FIELD} and the like"],
    ),
    (
        "count: 1, compute: {x: {sum: }}",
        [
            "8:37: agents.a.aggregate.compute.x: is not a field path; write field names joined by dots, "
            "such as customer.id"
        ],
    ),
    (
        "count: 1, compute: {x: {reduce: sum}}",
        ["8:37: agents.a.aggregate.compute.x: is not an import path; write module:function"],
    ),
    (
        "count: 1, compute: {reason: count}",
        ["8:37: agents.a.aggregate.compute.reason: is reserved in the result; give the computed field another name"],
    ),
    (
        "count: 1, on_timeout: discard",
        ["8:27: agents.a.aggregate.on_timeout: has no timeout to act on; add a timeout, or leave it out"],
    ),
    (
        "timeout: 1s, on_timeout: discard",
        [
            "8:30: agents.a.aggregate.on_timeout: leaves no result to write or to handle: every group ends by its "
            "timeout; add a count or an until, or leave it out"
        ],
    ),
    (
        "count: 1, on_missing: stop",
        ["8:27: agents.a.aggregate.on_missing: must be dead-letter, skip or ignore; write one of these words"],
    ),
    (
        "count: 1, on_null: ignore",
        ["8:27: agents.a.aggregate.on_null: must be dead-letter or skip; write one of these words"],
    ),
    (
        "count: 1, on_full: drop",
        ["8:27: agents.a.aggregate.on_full: must be fire-oldest, dead-letter or stop; write one of these words"],
    ),
    (
        "count: 10, max_items: 9",
        ["8:28: agents.a.aggregate.max_items: is below count: no group could reach it; raise max_items or lower count"],
    ),
    (
        "count: 1, max_bytes: 1MiB, max_buffered_bytes: 1kB",
        [
            "8:44: agents.a.aggregate.max_buffered_bytes: is below max_bytes, the bound of one group; raise it, or "
            "lower max_bytes"
        ],
    ),
    (
        "count: 1, max_bytes: 0.3B",
        [
            "8:27: agents.a.aggregate.max_bytes: is not a size; write a number and B, kB, KiB, MB, MiB or GiB, such "
            "as 4MiB"
        ],
    ),
    (
        "count: 1, compute: {x: {sum: a}, y: {sum: a.b}}",
        ["8:5: agents.a.aggregate: a.b lies inside another wanted field; change the field names, or the reducers"],
    ),
    (
        "count: 1, compute: {x: {reduce: no_such_module:f}}",
        [
            "8:37: agents.a.aggregate.compute.x: no_such_module:f: there is no module no_such_module; "
            "put no_such_module.py or the folder no_such_module next to the file, or install it"
        ],
    ),
]


@pytest.mark.parametrize(("rule", "expected"), RULE)
def test_a_mistake_in_a_rule_is_named(tmp_path, rule, expected):
    text = agent(f"{FROM}\naggregate: {{{rule}}}\n{TO}")
    assert lines(loaded(tmp_path, text).problems, tmp_path) == [f"f.yaml:{line}" for line in expected]


def test_all_mistakes_are_reported_at_once_by_line_and_none_hides_another(tmp_path):
    text = """\
app: shop
kafka:
  bootstrap.servers: localhost:9092
  group.id: mine
store: nowhere
agents:
  one:
    from: orders
    fromat: json
    aggregate: {count: 20, max_items: 10, timeout: {after: 5}, compute: {key: count, x: sum}}
    to: {topic: orders}
  two:
    from: other
    format: raw
    key: customer
    aggregate: 5
    to: {topc: x}
http: {host: 0.0.0.0, prt: 1}
"""
    problems = loaded(tmp_path, text).problems
    assert [(p.line, p.key) for p in problems] == [
        (4, "kafka.group.id"),
        (5, "store"),
        (9, "agents.one.fromat"),
        (10, "agents.one.aggregate.max_items"),
        (10, "agents.one.aggregate.timeout.after"),
        (10, "agents.one.aggregate.compute.key"),
        (10, "agents.one.aggregate.compute.x"),
        (11, "agents.one.to.topic"),
        (15, "agents.two.key"),
        (16, "agents.two.aggregate"),
        (17, "agents.two.to.topic"),
        (17, "agents.two.to.topc"),
        (18, "http.host"),
        (18, "http.prt"),
    ]


def test_a_mistake_is_reported_once_and_nothing_is_concluded_from_a_wrong_value(tmp_path):
    text = agent("from: [orders, b c]\nformat: rwa\nkey: a\naggregate: {count: -1, max_items: 1}\nto: {topic: orders}")
    assert [p.key for p in loaded(tmp_path, text).problems] == [
        "agents.a.from[1]",
        "agents.a.format",
        "agents.a.aggregate.count",
    ]


@pytest.mark.parametrize(
    ("store", "near"),
    [
        ("sqlite:/x", "did you mean sqlite:///?"),
        ("sqlite3:///x.db", "did you mean sqlite:///?"),
        ("redsi://h", "did you mean redis://?"),
        ("valkey://h", "did you mean redis://?"),
        ("postgres://h/db", "did you mean postgresql://?"),
        ("postgresql+psycopg://h/db", "did you mean postgresql://?"),
        ("mongo://h/db", "did you mean mongodb://?"),
        ("oracle://h/db", "write a URL that begins with memory://, sqlite://"),
    ],
)
def test_a_store_that_is_not_known_has_a_near_one(tmp_path, store, near):
    file = loaded(tmp_path, GOOD.replace("sqlite:///state.db", store))
    [line] = lines(file.problems, tmp_path)
    assert line.startswith(f"f.yaml:3:1: store: is not a known store; {near}")
