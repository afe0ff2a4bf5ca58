"""The features of an agent as pieces of the file, and the kinds of agents that they are added to.

A pair is a file with the pieces of two features. Alternatives, such as two values of `then`, are no pairs: their pieces
have different values of one key.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import combinations
from typing import Any, NamedTuple

Tree = dict[str, Any]
TIME = {"field": "at", "unit": "s"}


class Feature(NamedTuple):
    """`on`: the kinds that have what it configures; empty: all. `basis`: the keys that it needs, which have effects of
    their own."""

    keys: Tree
    on: frozenset[str] = frozenset()
    basis: Tree = {}  # noqa: RUF012 - a NamedTuple


def window(**keys: Any) -> Tree:
    return {"aggregate": {"window": {**keys, "time": TIME}}}


def aggregate(**keys: Any) -> Tree:
    return {"aggregate": keys}


WINDOWS = frozenset({"tumbling", "calendar", "hopping", "sessions", "sliding"})
AGGREGATIONS = WINDOWS | {"groups"}
TABLE = frozenset({"table"})
CORRELATIONS = frozenset({"correlation by event time", "correlation by the worker's clock"})
GROUPS = AGGREGATIONS | CORRELATIONS | TABLE
RECORDS = frozenset({"forwarder", "handler of records"})
LEGS = {"order": "orders", "payment": {"from": "payments", "key": "id"}}

KINDS: Mapping[str, Tree] = {
    "groups": {"from": "in", "aggregate": {"timeout": "30s"}, "to": {"topic": "out"}},
    "tumbling": {"from": "in", "to": {"topic": "out"}} | window(tumbling="1m"),
    "calendar": {"from": "in", "to": {"topic": "out"}} | window(tumbling="day", zone="Europe/Vienna"),
    "hopping": {"from": "in", "to": {"topic": "out"}} | window(hopping="2m", every="1m"),
    "sessions": {"from": "in", "to": {"topic": "out"}} | window(session="1m"),
    "sliding": {"from": "in", "to": {"topic": "out"}} | window(sliding="1m"),
    "correlation by event time": {"correlate": {"legs": LEGS, "timeout": "20s"}, "to": {"topic": "out"}},
    "correlation by the worker's clock": {
        "correlate": {"legs": LEGS, "timeout": {"after": "20s", "clock": "wall"}},
        "to": {"topic": "out"},
    },
    "table": {
        "from": [{"topic": "in", "envelope": "debezium"}],
        "key": "id",
        "repartition": "by-id",
        "aggregate": {"compute": {"rows": "count"}},
        "emit": {"every": "10s"},
        "to": {"topic": "out"},
    },
    "forwarder": {"from": "in", "to": {"topic": "out"}},
    "handler of records": {"from": "in", "handler": "tests.pairs.functions:take", "to": {"topic": "out"}},
}

HANDLER = {"handler": "tests.pairs.functions:enter"}
CALLS = {**HANDLER, "concurrency": 4}
SUM, STATUS, ROWS_OF = {"spent": {"sum": "amount"}}, {"status": {"last": "status"}}, {"rows": "collect"}
SKETCHES = {"slow": {"percentile": {"field": "amount", "p": 95}}, "about": {"approx_distinct": "id"}}
COUNTS = {"by": {"count_by": "status"}, "recent": {"last_n": {"field": "amount", "n": 2}}}
FAILING = "100 / int(amount) > 0"
"""It has no answer for amounts below 1, which every format can have."""
ROWS = {"column": "id", "fields": ["name"]}


def lookup(name: str, on: frozenset[str], key: str, **keys: Any) -> Feature:
    return Feature({"lookup": {name: {"key": key, **keys}}}, on)


FEATURES: Mapping[str, Feature] = {
    # which records count
    "where": Feature({"where": "amount > 0"}),
    "let": Feature({"let": {"twice": "amount * 2"}}),
    "fields": Feature({"fields": {"amount": "number", "id": "text", "at": "number", "status": "text"}}),
    "key": Feature({"key": "id"}),
    "repartition": Feature({"key": "id", "repartition": "by-id"}, basis={"key": "id"}),
    "dedupe": Feature({"dedupe": {"id": "header:event", "horizon": "1h"}}),
    "dedupe by a field": Feature({"dedupe": {"id": "id", "horizon": "1h"}}),
    "CloudEvents": Feature({"from": [{"topic": "in", "envelope": "cloudevents"}]}),
    "change events": Feature({"from": [{"topic": "in", "envelope": "debezium"}]}, RECORDS),
    "topics by a pattern": Feature({"from": [{"pattern": "i[m-o]"}]}),
    "Avro records": Feature({"format": "avro", "schema": "order.avsc"}),
    "Protobuf records": Feature({"format": "protobuf", "schema": "order.desc", "message": "Order"}),
    "JSON Schema records": Feature(
        {"format": "json-schema", "schema": "order.json", "validate": True},
        basis={"format": "json-schema", "schema": "order.json"},
    ),
    "raw records": Feature({"format": "raw"}),
    "start": Feature({"start": "latest"}),
    "max_record_bytes": Feature({"max_record_bytes": "10kB"}),
    "on_error: decode: skip": Feature({"on_error": {"decode": "skip"}}),
    "on_error: decode: stop": Feature({"on_error": {"decode": "stop"}}),
    "on_error: expression: skip": Feature(
        {"on_error": {"expression": "skip"}, "where": FAILING}, basis={"where": FAILING}
    ),
    "on_error: produce: stop": Feature({"on_error": {"produce": "stop"}}),
    "on_error: stop_above": Feature({"on_error": {"stop_above": "1 of 1h"}}),
    "dead_letters": Feature({"dead_letters": {"topic": "a.dead", "headers": "connect"}}),
    # how groups end
    "count": Feature(aggregate(count=3), AGGREGATIONS),
    "timeout since the last": Feature(aggregate(timeout={"after": "30s", "since": "last"}), AGGREGATIONS),
    "timeout at": Feature(aggregate(timeout={"at": "at", "unit": "s"}), AGGREGATIONS),
    "timeout after what the record says": Feature(
        aggregate(timeout={"after": 'duration("30s")', "cancel": "amount < 0"}), AGGREGATIONS
    ),
    "until a value": Feature(aggregate(until={"field": "status", "equals": "closed"}), AGGREGATIONS),
    "until an expression": Feature(aggregate(until="group.count >= 3"), AGGREGATIONS),
    "on_timeout: discard": Feature(aggregate(on_timeout="discard", count=3), AGGREGATIONS, aggregate(count=3)),
    "on_timeout: dead-letter": Feature(aggregate(on_timeout="dead-letter", count=3), AGGREGATIONS, aggregate(count=3)),
    "on_missing: skip": Feature(aggregate(on_missing="skip", compute=STATUS), AGGREGATIONS, aggregate(compute=STATUS)),
    "on_missing: ignore": Feature(
        aggregate(on_missing="ignore", compute=STATUS), AGGREGATIONS, aggregate(compute=STATUS)
    ),
    "on_null: skip": Feature(aggregate(on_null="skip"), AGGREGATIONS),
    "hot_groups": Feature(aggregate(hot_groups=1000), TABLE),
    "on_full: dead-letter": Feature(
        aggregate(on_full="dead-letter", max_groups=10), AGGREGATIONS, aggregate(max_groups=10)
    ),
    "on_full: stop": Feature(aggregate(on_full="stop", max_groups=10), AGGREGATIONS, aggregate(max_groups=10)),
    "max_items": Feature(aggregate(max_items=10), AGGREGATIONS),
    "max_bytes": Feature(aggregate(max_bytes="10kB", compute=ROWS_OF), AGGREGATIONS, aggregate(compute=ROWS_OF)),
    # what they compute
    "sum": Feature(aggregate(compute=SUM), AGGREGATIONS | TABLE),
    "last": Feature(aggregate(compute={"newest": {"last": "amount"}}), AGGREGATIONS),
    "distinct": Feature(aggregate(compute={"different": {"distinct": "status"}}), AGGREGATIONS | TABLE),
    "collect a field": Feature(aggregate(compute={"amounts": {"collect": "amount"}}), AGGREGATIONS | TABLE),
    "collect": Feature(aggregate(compute=ROWS_OF), AGGREGATIONS | TABLE),
    "reduce": Feature(aggregate(compute={"folded": {"reduce": "tests.pairs.functions:add"}}), AGGREGATIONS),
    "sketches": Feature(aggregate(compute=SKETCHES), AGGREGATIONS),
    "counts by value": Feature(aggregate(compute=COUNTS), AGGREGATIONS),
    "spread": Feature(aggregate(compute={"spread": {"stddev": "amount"}}), AGGREGATIONS | TABLE),
    # windows
    "late: skip": Feature({"aggregate": {"window": {"late": "skip"}}}, WINDOWS),
    "late: new": Feature({"aggregate": {"window": {"late": {"new": "10s"}}}}, WINDOWS),
    "late: amend": Feature({"aggregate": {"window": {"late": {"amend": "10m"}}}}, WINDOWS),
    "grace": Feature({"aggregate": {"window": {"grace": "10s"}}}, WINDOWS),
    "idle: never": Feature({"aggregate": {"window": {"idle": "never"}}}, WINDOWS),
    "at_most": Feature(
        {"aggregate": {"window": {"at_most": "30h", "idle": "never"}}},
        WINDOWS,
        {"aggregate": {"window": {"idle": "never"}}},
    ),
    "offset": Feature({"aggregate": {"window": {"offset": "10s"}}}, WINDOWS),
    "last of windows": Feature({"aggregate": {"window": {"last": 2}}}, frozenset({"sliding"})),
    # correlations
    "keep: all": Feature({"correlate": {"legs": {"payment": {"keep": "all"}}}}, CORRELATIONS),
    "hot_groups of correlations": Feature({"correlate": {"hot_groups": 1000}}, CORRELATIONS),
    "complete": Feature({"correlate": {"complete": "has(order)"}}, CORRELATIONS),
    "late: skip of legs": Feature({"correlate": {"late": "skip"}}, CORRELATIONS),
    "where of a leg": Feature({"correlate": {"legs": {"payment": {"where": "amount > 0"}}}}, CORRELATIONS),
    "Avro legs": Feature(
        {"correlate": {"legs": {"payment": {"format": "avro", "schema": "order.avsc"}}}}, CORRELATIONS
    ),
    "CloudEvents legs": Feature(
        {"correlate": {"legs": {"payment": {"from": {"topic": "payments", "envelope": "cloudevents"}}}}}, CORRELATIONS
    ),
    "legs by a pattern": Feature({"correlate": {"legs": {"payment": {"from": [{"pattern": "pay.*"}]}}}}, CORRELATIONS),
    # clusters
    "results to another cluster": Feature({"to": {"cluster": "west"}}),
    # whose groups
    "scope: shared": Feature({"scope": "shared"}),
    # handlers
    "handler": Feature(HANDLER, GROUPS),
    "session": Feature({"handler": "tests.pairs.functions:enter_in_session", "session": True}, GROUPS, HANDLER),
    "concurrency": Feature({**HANDLER, "concurrency": 4}, GROUPS, HANDLER),
    "then: park": Feature({**HANDLER, "then": "park"}, GROUPS, HANDLER),
    "then: stop": Feature({**HANDLER, "then": "stop"}, GROUPS, HANDLER),
    "retry": Feature({**HANDLER, "retry": {"attempts": 3, "backoff": "1s..2s"}}, GROUPS, HANDLER),
    "outage": Feature({**HANDLER, "outage": ["builtins.OSError"]}, GROUPS, HANDLER),
    "throttle": Feature({**CALLS, "throttle": {"limit": 20, "per": "1s", "key": "key"}}, GROUPS, CALLS),
    "rate_limit": Feature({**CALLS, "rate_limit": {"limit": 1000, "per": "1s"}}, GROUPS, CALLS),
    "priority": Feature({**CALLS, "priority": "count"}, GROUPS, CALLS),
    "singleton": Feature({**CALLS, "singleton": "key"}, GROUPS, CALLS),
    "throttle of records": Feature(
        {"concurrency": 4, "throttle": {"limit": 20, "per": "1s", "key": "amount"}},
        frozenset({"handler of records"}),
        {"concurrency": 4},
    ),
    "concurrency of records": Feature({"concurrency": 4}, frozenset({"handler of records"})),
    "then: park of records": Feature({"then": "park"}, frozenset({"handler of records"})),
    "then: stop of records": Feature({"then": "stop"}, frozenset({"handler of records"})),
    "retry of records": Feature({"retry": {"attempts": 3, "backoff": "1s..2s"}}, frozenset({"handler of records"})),
    "outage of records": Feature({"outage": ["builtins.OSError"]}, frozenset({"handler of records"})),
    # what is written
    "having": Feature({"having": "count > 1"}, GROUPS),
    "routes": Feature({"to": [{"topic": "big", "where": "count > 5"}, {"topic": "out"}]}, GROUPS),
    "routes of records": Feature({"to": [{"topic": "big", "where": "amount > 5"}, {"topic": "out"}]}, RECORDS),
    "emit: every": Feature({"emit": {"every": "10s"}}, GROUPS),
    "emit: count": Feature({"emit": {"count": 2, "final": False}}, GROUPS),
    "emit: on change": Feature(
        {"emit": {"on": "change"}, **aggregate(compute=SUM)}, AGGREGATIONS, aggregate(compute=SUM)
    ),
    "drop": Feature({"to": [{"topic": "big", "where": "count > 5"}, "drop"]}, GROUPS),
    "select": Feature({"to": {"select": {"number": "count", "key": "key"}}}, GROUPS),
    "select of records": Feature({"to": {"select": {"sum": "amount"}}}, RECORDS),
    "Avro results": Feature({"to": {"format": "avro", "schema": "result.avsc"}}),
    "Protobuf results": Feature({"to": {"format": "protobuf", "schema": "result.desc", "message": "Result"}}),
    "JSON Schema results": Feature(
        {"to": {"format": "json-schema", "schema": "result.json", "validate": True}},
        basis={"to": {"format": "json-schema", "schema": "result.json"}},
    ),
    "CloudEvents results": Feature({"to": {"envelope": {"cloudevents": "binary", "type": "t"}}}),
    "structured CloudEvents results": Feature({"to": {"envelope": {"cloudevents": "structured", "type": "t"}}}),
    "delivery: transactional": Feature({"delivery": "transactional"}),
    "history": Feature({"history": "a.history", "having": "count > 1"}, GROUPS, {"having": "count > 1"}),
    "lookup in a table": lookup("customer", GROUPS, "key", table="customers", **ROWS),
    "lookup in a topic": lookup("owner", GROUPS, "key", topic="owners", fields=["name"]),
    "lookup that refuses": lookup("customer", GROUPS, "key", table="customers", missing="dead-letter", **ROWS),
    "lookup that waits": lookup("customer", GROUPS, "key", table="customers", missing={"wait": "30s"}, **ROWS),
    "lookup in a table of records": lookup("customer", RECORDS, "id", table="customers", **ROWS),
    "lookup in a topic of records": lookup("owner", RECORDS, "id", topic="owners", fields=["name"]),
    "lookup of records that waits": lookup(
        "customer", RECORDS, "id", table="customers", missing={"wait": "30s"}, **ROWS
    ),
    # changes of the file
    "revision": Feature({"revision": "2"}),
    "on_change: finish": Feature({"on_change": "finish"}),
    "on_change: convert": Feature({"on_change": "convert"}),
    "on_change: flush": Feature({"on_change": "flush"}),
}


CHANGE: Mapping[str, Tree] = {
    **dict.fromkeys(sorted(AGGREGATIONS), aggregate(compute={"added": {"sum": "amount"}})),
    "table": aggregate(compute={"added": {"sum": "amount"}}),
    **{key: {"correlate": {"legs": {"order": {"keep": "last"}}}} for key in sorted(CORRELATIONS)},
}
"""A change of the rule for which open groups cannot be converted."""


def merged(one: Tree, other: Tree) -> Tree | None:
    """Both trees; None when they are alternatives."""
    made = deepcopy(one)
    for key, value in other.items():
        if key not in made:
            made[key] = deepcopy(value)
        elif isinstance(made[key], dict) and isinstance(value, dict):
            inner = merged(made[key], value)
            if inner is None:
                return None
            made[key] = inner
        elif made[key] != value:
            return None
    return made


def placed(kind: str, *names: str) -> Tree | None:
    """The agent of a kind with these features; None when they are alternatives."""
    return composed(kind, *(FEATURES[name].keys for name in names))


def composed(kind: str, *pieces: Tree) -> Tree | None:
    """The agent of a kind with these pieces of the file; None when they are alternatives."""
    features = Tree()
    for piece in pieces:
        both = merged(features, _with_topic(piece))
        if both is None:
            return None
        features = both
    return over(KINDS[kind], features)


def _with_topic(piece: Tree) -> Tree:
    keys = deepcopy(piece)
    if "to" in keys and isinstance(keys["to"], dict):
        keys["to"] = {"topic": "out", **keys["to"]}
    return keys


def over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return _leg(below, above)
    if "timeout" in above and isinstance(below.get("timeout"), str):
        below = {key: value for key, value in below.items() if key != "timeout"}
    return below | {key: over(below[key], value) if key in below else value for key, value in above.items()}


def _leg(below: Any, above: Any) -> Any:
    if isinstance(below, str) and isinstance(above, dict) and not {"from", "topic", "pattern"} & above.keys():
        return {"from": below, **above}
    return above


def kinds_of(*names: str) -> list[str]:
    """The kinds that have what these features configure."""
    return [kind for kind in KINDS if all(not (on := FEATURES[name].on) or kind in on for name in names)]


def singles() -> Iterator[tuple[str, str]]:
    """Each kind with each feature that it may have."""
    return ((kind, name) for name in FEATURES for kind in kinds_of(name))


def pairs() -> Iterator[tuple[str, str, str]]:
    """Each kind with each two features that it may have."""
    return ((kind, *both) for both in combinations(FEATURES, 2) for kind in kinds_of(*both))
