"""The features whose state is recorded: the agents of a file, and the script that they are fed.

A step is a number of seconds to advance, or a record: topic, key and value, and headers if it has some. All records go
to partition 0. A value with `at` has its own time, in seconds after the begin.
"""

from typing import Any, NamedTuple

Step = float | tuple[Any, ...]


class Feature(NamedTuple):
    """`agents` is the text under `agents:`. The state is recorded after `first`; `second` ends what is open then."""

    agents: str
    first: tuple[Step, ...]
    second: tuple[Step, ...]


def orders(*amounts: Any, key: str = "k", topic: str = "in", at: float | None = None) -> tuple[Step, ...]:
    timed = {} if at is None else {"at": at}
    return tuple((topic, key, {"amount": amount, "id": f"{key}-{amount}", **timed}) for amount in amounts)


def changed(*rows: tuple[int, str | None, Any]) -> tuple[Step, ...]:
    """Change events of rows: each has an id, the customer (None: the row is deleted) and an amount."""
    events = [(id, None if who is None else {"id": id, "customer": who, "amount": amount}) for id, who, amount in rows]
    return tuple(("in", str(id), {"op": "u" if row else "d", "before": None, "after": row}) for id, row in events)


def agent(rule: str, more: str = "", to: str = "{topic: out}") -> str:
    return f"  a:\n    from: in\n    aggregate: {{{rule}}}\n    to: {to}\n{more}"


def windowed(window: str, compute: str = "n: count, s: {sum: amount}, f: {first: id}, l: {last: id}") -> str:
    return agent(f"window: {{{window}, time: {{field: at, unit: s}}}}, compute: {{{compute}}}")


ALL = (
    "n: count, s: {sum: amount}, lo: {min: amount}, hi: {max: amount}, m: {mean: amount}, f: {first: id}, "
    "l: {last: id}, d: {distinct: id}, c: {collect: id}, whole: collect"
)
VALUES = (
    "n: count, s: {sum: amount}, lo: {min: amount}, hi: {max: amount}, m: {mean: amount}, v: {variance: amount}, "
    "f: {first: id}, l: {last: id}"
)
"""Without bags."""
ENDS = "c: {count_by: id}, f: {first_n: {field: id, n: 2}}, l: {last_n: {field: id, n: 2}}"
SKETCHES = "p: {percentile: {field: amount, p: 50}}, a: {approx_distinct: id}, t: {top: {field: id, n: 2}}"
OF_ROWS = (
    "n: count, s: {sum: amount}, m: {mean: amount}, lo: {min: amount}, hi: {max: amount}, v: {variance: amount}, "
    "b: {count_by: amount}, d: {distinct: amount}, c: {collect: id}, whole: collect"
)
REDUCE = "f: {reduce: tests.pairs.functions:add}"
TIMES = (*orders(1, 2, at=10), *orders(3, at=70), *orders(4, key="other", at=75))
LATER = (*orders(5, at=80), *orders(6, at=200), *orders(7, key="other", at=400), 180.0)
BESIDE = (
    *(*orders(1, at=0), 1.0, *orders(2, key="x", at=5), 1.0),
    *(*orders(3, key="y", at=65), 1.0, *orders(4, key="z", at=66), 1.0),
)
"""The third record closes the windows of the first two."""
LEGS = (*orders(1, topic="orders"), *orders(2, topic="orders", key="x"), *orders(2, topic="payments", key="x"))


def correlated(timeout: str = "30s", payment: str = "payments", more: str = "", keys: str = "") -> str:
    legs = f"{{order: orders, payment: {payment}}}"
    return f"  a:\n    correlate: {{legs: {legs}, timeout: {timeout}{keys}}}\n    to: {{topic: out}}\n{more}"


GROUPS = {
    "count": Feature(agent("count: 3"), orders(1, 2), orders(3, 4, 5, 6)),
    "reducers": Feature(agent(f"count: 4, compute: {{{ALL}}}"), orders(1, 2.5, 3), orders(4)),
    "fractions": Feature(  # `sum` of Python 3.12 rounds them once, that of 3.11 at each step
        agent("count: 12, compute: {s: {sum: amount}, m: {mean: amount}, v: {variance: amount}, d: {stddev: amount}}"),
        orders(1e16, *[0.1] * 9),
        orders(0.7, -1e16),
    ),
    "fractions in hopping windows": Feature(
        windowed("hopping: 60s, every: 20s", "s: {sum: amount}, m: {mean: amount}, v: {variance: amount}"),
        (*orders(*[0.1] * 9, at=10), *orders(1e16, at=30), *orders(0.7, at=50)),
        LATER,
    ),
    "variance": Feature(
        agent("count: 4, compute: {v: {variance: amount}, d: {stddev: amount}}"), orders(1, 2.5, 10**30), orders(4)
    ),
    "sketches": Feature(agent(f"count: 5, compute: {{{SKETCHES}}}"), orders(1, -2.5, 1, 0), orders(4)),
    "counts and ends": Feature(agent(f"count: 4, compute: {{{ENDS}}}"), orders(1, 2.5, 1), orders(4)),
    "timeout since the first": Feature(
        agent("timeout: {after: 10s, since: first}"), orders(1, 2), (5.0, *orders(3), 6.0)
    ),
    "timeout since the last": Feature(
        agent("timeout: {after: 10s, since: last}"), orders(1, 2), (5.0, *orders(3), 11.0)
    ),
    "deadline in the data": Feature(
        agent("timeout: {at: amount, unit: s, first: 1h}, compute: {s: {sum: amount}}"),
        (*orders(1_767_225_700), *orders(1_767_225_900, key="x"), *orders(1_767_225_800)),
        (90.0, *orders(1_767_226_000, key="x"), 120.0, 300.0),
    ),
    "duration in the data": Feature(
        agent("timeout: {after: amount, unit: s, since: last}, hot_groups: 1, compute: {s: {sum: amount}}"),
        (*orders(100), 10.0, *orders(50, key="x"), *orders(60, key="y"), 10.0, *orders(20, key="y")),
        (*orders(70), 30.0, 100.0),
    ),
    "cold groups": Feature(
        agent("count: 3, timeout: {after: 1h}, hot_groups: 1, compute: {s: {sum: amount}}"),
        (*orders(1), 1.0, *orders(2, key="x"), 1.0, *orders(3, key="y"), 1.0, *orders(10**30, key="z"), 1.0),
        (*orders(4, 5), *orders(6, 7, key="z"), 4000.0),
    ),
    "cold windows": Feature(
        agent("window: {tumbling: 60s, time: {field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}"),
        (
            *orders(1, at=0),
            1.0,
            *orders(2, key="x", at=5),
            1.0,
            *orders(3, at=65),
            1.0,
            *orders(4, key="x", at=66),
            1.0,
        ),
        (*orders(5, at=20), *orders(6, key="y", at=50), *LATER),
    ),
    "late records amend cold windows": Feature(
        agent(
            "window: {tumbling: 60s, time: {field: at, unit: s}, late: {amend: 200s, every: 1s}}, hot_groups: 1, "
            "compute: {s: {sum: amount}, c: {collect: id}}"
        ),
        (*BESIDE, *orders(5, key="x", at=30), 2.0, *orders(6, key="z", at=70), 1.0),
        (*orders(8, at=20), 2.0, *orders(9, key="x", at=31), 2.0, *LATER),
    ),
    "late records make new results beside cold windows": Feature(
        agent(
            "window: {tumbling: 60s, time: {field: at, unit: s}, late: {new: 5s}}, hot_groups: 1, "
            "compute: {s: {sum: amount}}"
        ),
        (*BESIDE, *orders(5, key="x", at=30), 1.0, *orders(6, key="z", at=70), 1.0),
        (*orders(8, at=20), 2.0, *orders(9, key="x", at=31), 6.0, *LATER),
    ),
    "late records make new results beside cold sessions": Feature(
        agent(
            "window: {session: 30s, time: {field: at, unit: s}, late: {new: 5s}}, hot_groups: 1, "
            "compute: {s: {sum: amount}}"
        ),
        (*BESIDE, *orders(5, key="x", at=20), 1.0, *orders(6, key="z", at=70), 1.0),
        (*orders(8, at=0), 2.0, *orders(9, key="x", at=25), 6.0, *LATER),
    ),
    "cold windows with early results": Feature(
        agent(
            "window: {tumbling: 60s, time: {field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}",
            "    emit: {every: 30s}\n",
        ),
        (
            *orders(1, at=0),
            20.0,
            *orders(2, key="x", at=5),
            15.0,
            *orders(3, key="y", at=35),
            1.0,
            *orders(4, at=36),
            1.0,
        ),
        (10.0, 10.0, 20.0, *orders(5, at=40), *LATER),
    ),
    "cold hopping windows": Feature(
        agent(
            "window: {hopping: 60s, every: 30s, time: {field: at, unit: s}}, count: 3, hot_groups: 1, "
            "compute: {s: {sum: amount}}"
        ),
        (
            *orders(1, at=10),
            1.0,
            *orders(2, key="x", at=15),
            1.0,
            *orders(3, at=35),
            1.0,
            *orders(4, key="y", at=36),
            1.0,
        ),
        (*orders(5, at=40), *orders(6, key="x", at=20), *LATER),
    ),
    "cold panes": Feature(
        agent(
            "window: {hopping: 60s, every: 30s, time: {field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}"
        ),
        (
            *orders(1, at=10),
            1.0,
            *orders(2, key="x", at=15),
            1.0,
            *orders(3, at=35),
            1.0,
            *orders(4, key="y", at=36),
            1.0,
        ),
        (*orders(5, at=40), *orders(6, key="x", at=20), *LATER),
    ),
    "cold sessions": Feature(
        agent("window: {session: 30s, time: {field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}"),
        (
            *orders(1, at=100),
            1.0,
            *orders(2, key="x", at=105),
            1.0,
            *orders(3, key="y", at=110),
            1.0,
            *orders(4, key="z", at=112),
            1.0,
        ),
        (*orders(5, at=90), *orders(6, key="y", at=139), *LATER),
    ),
    "cold sessions with early results": Feature(
        agent(
            "window: {session: 30s, time: {field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}",
            "    emit: {every: 30s}\n",
        ),
        (
            *orders(1, at=100),
            20.0,
            *orders(2, key="x", at=105),
            15.0,
            *orders(3, key="y", at=110),
            1.0,
            *orders(4, at=112),
            1.0,
        ),
        (10.0, 10.0, 20.0, *orders(5, at=90), *LATER),
    ),
    "until a value": Feature(
        agent("until: {field: id, equals: k-3}, timeout: {after: 1h}, compute: {s: {sum: amount}}"),
        orders(1, 2),
        orders(3),
    ),
    "until an expression": Feature(
        agent('until: "group.s >= 10", compute: {s: {sum: amount}}'), orders(1, 2), orders(3, 4, 5)
    ),
    "where and let": Feature(
        agent("count: 2, compute: {s: {sum: twice}}", "    where: amount > 1\n    let: {twice: amount * 2}\n"),
        orders(1, 2),
        orders(3),
    ),
    "key of a field": Feature(agent("count: 2", "    key: id\n"), orders(1, 2), orders(1, 2)),
    "limits": Feature(
        agent("timeout: {after: 1h}, max_items: 3, max_groups: 2, compute: {c: {collect: id}}"),
        (*orders(1, 2), *orders(1, key="x")),
        (*orders(3), *orders(1, key="y"), 4000.0),
    ),
    "having, routes and select": Feature(
        agent(
            "count: 2, compute: {s: {sum: amount}}",
            "    having: s > 1\n",
            "[{topic: big, where: s > 5, select: {total: s, customer: key}}, {topic: out}]",
        ),
        orders(1),
        orders(2, 3, 4),
    ),
    "dead letters": Feature(
        agent("count: 3, compute: {s: {sum: amount}}"), (*orders(1), ("in", "k", b"{bad")), orders(2, 3)
    ),
    "history": Feature(
        agent("timeout: {after: 10s, since: first}, on_timeout: discard, count: 3", "    history: told\n"),
        orders(1, 2),
        (20.0, *orders(3, 4, 5)),
    ),
    "cloudevents": Feature(
        agent(
            "count: 2, compute: {s: {sum: amount}}", to="{topic: out, envelope: {cloudevents: structured, type: paid}}"
        ),
        orders(1),
        orders(2),
    ),
}
READING = {
    "dedupe of groups": Feature(
        agent("count: 3", "    dedupe: {id: id, horizon: 1h}\n"), orders(1, 1, 2), orders(2, 1, 3)
    ),
    "dedupe of a forwarder": Feature(
        "  a:\n    from: in\n    dedupe: {id: id, horizon: 1h}\n    to: {topic: out}\n", orders(1, 1), orders(1, 2)
    ),
    "repartition": Feature(
        "  a:\n    from: in\n    key: id\n    repartition: by-id\n    aggregate: {count: 2}\n    to: {topic: out}\n",
        orders(1, 2),
        orders(1, 2),
    ),
    "change events": Feature(
        "  a:\n    from: {topic: in, envelope: debezium}\n    key: customer\n    repartition: by-customer\n"
        f"    aggregate: {{compute: {{{OF_ROWS}}}}}\n    emit: {{on: change}}\n    to: {{topic: out}}\n",
        changed((1, "x", 1), (2, "x", 2.5), (3, "x", 1), (4, "y", 10**30), (2, "y", 0.5), (5, "y", 3), (5, None, 0)),
        changed((1, "y", 1), (3, None, 0), (2, "x", 0.1), (4, "x", 7)),
    ),
    "repartitioned windows": Feature(
        "  a:\n    from: in\n    key: id\n    repartition: by-id\n    aggregate: {window: {tumbling: 60s, time: "
        "{field: at, unit: s}}, compute: {s: {sum: amount}}}\n    to: {topic: out}\n",
        TIMES,
        LATER,
    ),
    "cold windows over a repartitioned topic": Feature(
        "  a:\n    from: in\n    key: id\n    repartition: by-id\n    aggregate: {window: {tumbling: 60s, time: "
        "{field: at, unit: s}}, hot_groups: 1, compute: {s: {sum: amount}}}\n    to: {topic: out}\n",
        (*orders(1, at=10), 3.0, *orders(2, at=12), 3.0, *orders(3, at=70), 3.0, *orders(4, key="other", at=75), 3.0),
        LATER,
    ),
    "an agent behind an agent": Feature(
        agent("count: 2, compute: {s: {sum: amount}}")
        + "  b:\n    from: out\n    aggregate: {count: 2, compute: {t: {sum: s}}}\n    to: {topic: sums}\n",
        orders(1, 2, 3),
        orders(4),
    ),
}
WINDOWS = {
    "tumbling": Feature(windowed("tumbling: 60s"), TIMES, LATER),
    "hopping": Feature(windowed("hopping: 60s, every: 20s"), TIMES, LATER),
    "session": Feature(windowed("session: 30s"), TIMES, LATER),
    "sliding": Feature(windowed("sliding: 70s", ALL), TIMES, (*orders(2.5, at=30), *LATER)),
    "the last records": Feature(windowed("last: 2", ALL), TIMES, (*orders(2.5, at=30), *LATER)),
    "the last records in a time": Feature(windowed("sliding: 70s, last: 2", ALL), TIMES, (*orders(2.5, at=30), *LATER)),
    "sliding numbers": Feature(windowed("sliding: 70s", VALUES), TIMES, (*orders(2.5, at=30), *LATER)),
    "the last numbers": Feature(windowed("last: 2", VALUES), TIMES, (*orders(2.5, at=30), *LATER)),
    "late records amend": Feature(
        windowed("tumbling: 60s, late: {amend: 1h, every: 1s}"), TIMES, (*orders(8, at=20), 2.0, *LATER)
    ),
    "late records make a new result": Feature(
        windowed("tumbling: 60s, late: {new: 10s}"), TIMES, (*orders(8, at=20), 20.0, *LATER)
    ),
    "bags in windows": Feature(windowed("tumbling: 60s", "c: {collect: id}, whole: collect"), TIMES, LATER),
    "bags in sessions": Feature(windowed("session: 30s", "c: {collect: id}, d: {distinct: id}"), TIMES, LATER),
    "session with until": Feature(
        agent("window: {session: 30s, time: {field: at, unit: s}}, until: group.s >= 5, compute: {s: {sum: amount}}"),
        TIMES,
        LATER,
    ),
    "hopping with count": Feature(
        agent("window: {hopping: 60s, every: 20s, time: {field: at, unit: s}}, count: 2, compute: {c: {collect: id}}"),
        TIMES,
        LATER,
    ),
    "late records amend hopping windows": Feature(
        windowed("hopping: 60s, every: 20s, late: {amend: 1h, every: 1s}"), TIMES, (*orders(8, at=20), 2.0, *LATER)
    ),
    "reduce in sessions": Feature(windowed("session: 30s", REDUCE), TIMES, LATER),
    "reduce in hopping windows": Feature(windowed("hopping: 60s, every: 20s", REDUCE), TIMES, LATER),
    "missing fields in windows": Feature(
        agent("window: {tumbling: 60s, time: {field: at, unit: s}}, on_missing: ignore, compute: {m: {mean: amount}}"),
        (*TIMES, ("in", "k", {"at": 76})),
        (("in", "k", {"at": 77}), *LATER),
    ),
    "sketches in sessions": Feature(windowed("session: 30s", SKETCHES), TIMES, LATER),
    "sketches in hopping windows": Feature(windowed("hopping: 60s, every: 20s", SKETCHES), TIMES, LATER),
    "counts and ends in sessions": Feature(windowed("session: 30s", ENDS), TIMES, LATER),
    "counts and ends in hopping windows": Feature(windowed("hopping: 60s, every: 20s", ENDS), TIMES, LATER),
    "variance in sessions": Feature(windowed("session: 30s", "v: {variance: amount}"), TIMES, LATER),
    "distinct in hopping windows": Feature(windowed("hopping: 60s, every: 20s", "d: {distinct: id}"), TIMES, LATER),
    "dedupe in windows": Feature(
        windowed("tumbling: 60s") + "    dedupe: {id: id, horizon: 1h}\n", (*TIMES, *TIMES), (*TIMES, *LATER)
    ),
}
COLD = ", hot_groups: 1"
OPENED = tuple(step for key in "abcd" for step in (*orders(ord(key), key=key, topic="orders"), 2.0))
MET = (*orders(7, key="b", topic="payments"), 2.0, *orders(8, key="b", topic="payments"), 2.0)
"""One key meets its other leg, and a record of it is late."""
CORRELATIONS = {
    "correlation by event time": Feature(correlated(), LEGS, (*orders(3, topic="payments"), 180.0)),
    "correlation by the owner's clock": Feature(correlated("{after: 30s, clock: wall}"), LEGS, (10.0, 180.0)),
    "correlation with duplicates": Feature(
        correlated(payment="{from: payments, keep: all}", more="    dedupe: {id: id, horizon: 1h}\n"),
        (*LEGS, *orders(1, 3, topic="payments")),
        (*orders(2, topic="orders", key="x"), *orders(1, 4, topic="payments"), 180.0),
    ),
    "correlation that keeps all": Feature(
        correlated(payment="{from: payments, keep: all}"),
        (*LEGS, *orders(5, topic="payments")),
        (*orders(6, topic="payments"), 180.0),
    ),
    "cold correlations by event time": Feature(correlated(keys=COLD), OPENED, (*MET, 180.0)),
    "cold correlations by the owner's clock": Feature(
        correlated("{after: 60s, clock: wall}", keys=COLD), OPENED, (*MET, 180.0)
    ),
    "cold correlations that keep all, with early results": Feature(
        correlated("60s", "{from: payments, keep: all}", "    emit: {every: 30s}\n", COLD), OPENED, (*MET, 20.0, 180.0)
    ),
}
FEATURES: dict[str, Feature] = {**GROUPS, **READING, **WINDOWS, **CORRELATIONS}
