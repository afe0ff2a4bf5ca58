"""A random file and its records, from a seed."""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

from sluicegate.streams.config.checking.checks import ENDS
from tests.unit.oracle.correlations import COMPLETE
from tests.unit.oracle.words import HAVING, LETS, NEEDS, UNTIL, WHERE

START = 1_767_225_600
"""2026-01-01 in seconds since 1970: when the clock of a test begins."""
REDUCERS: dict[str, Any] = {
    "total": {"sum": "a"},
    "least": {"min": "a"},
    "most": {"max": "a"},
    "mean": {"mean": "a"},
    "first1": {"first": "s"},
    "first2": {"first": "s"},
    "last1": {"last": "s"},
    "last2": {"last": "s"},
    "kinds": {"distinct": "k"},
    "values": {"distinct": "a"},
    "rows": "collect",
    "list": {"collect": "s"},
    "records": "count",
    "by": {"count_by": "k"},
    "top": {"top": {"field": "s", "n": 2}},
    "early": {"first_n": {"field": "a", "n": 2}},
    "newest": {"last_n": {"field": "s", "n": 2}},
}
BAGS = {"distinct", "collect", "count_by", "top", "first_n", "last_n"}
"""Reducers whose values count for `max_bytes`."""
SHAPES = ("groups", "windows", "forwarder", "correlation", "refusing", "merging", "reducing")
Tree = dict[str, Any]


@dataclass
class Record:
    """`at` is its timestamp in ms since 1970. `leg` is the topic, where there are several."""

    key: str | None
    value: bytes | None
    header: str | None
    at: int
    leg: str = ""


Step = list[Record] | int
"""Records that come at once, or the seconds by which the clock moves on."""


@dataclass
class Case:
    """`agent` is the agent `x` of the file; its topic is `in`."""

    agent: Tree
    steps: list[Step]

    def file(self) -> Tree:
        kafka = {"bootstrap.servers": "localhost:1"}
        agent = {name: value for name, value in self.agent.items() if name != "correlate"}
        if "dedupe" in agent:
            agent["dedupe"] = {name: value for name, value in agent["dedupe"].items() if name != "horizon_s"}
        if "correlate" in self.agent:
            agent["correlate"] = self.agent["correlate"]
        return {"app": "fz", "kafka": kafka, "store": "memory://", "dead_letters": "dead", "agents": {"x": agent}}


def case(seed: int) -> Case:
    random = Random(seed)
    shape = random.choice([*SHAPES, "groups", "windows", "groups", "windows", "forwarder", "correlation", "refusing"])
    if shape == "correlation":
        return _correlation(random)
    if shape in ("refusing", "merging"):
        return Case(_refusing(random) if shape == "refusing" else _merging(random), _steps(random, True, START))
    if shape == "reducing":
        return Case(_reducing(random), _steps(random, False, START))
    agent: Tree = {"from": "in"}
    _readings(random, agent)
    if shape == "forwarder":
        agent.pop("let", None)
        agent["to"] = _routes(random, _of_records)
    else:
        _rule(random, agent, windowed=shape == "windows")
    _leave_out_idle(agent)
    at_1970 = "time" in agent.get("aggregate", {}).get("window", {}) and random.random() < 0.3
    return Case(agent, _steps(random, "window" in agent.get("aggregate", {}), 0 if at_1970 else START))


def _refusing(random: Random) -> Tree:
    """Windows that refuse records after their time is known, and little else."""
    window: Tree = {"tumbling": "10s", "idle": "60s"}
    rule: Tree = {"compute": {"records": "count"}, "window": window, "until": 's == "end"'}
    if random.random() < 0.5:
        del rule["until"]
        rule |= {"max_groups": random.choice([1, 2]), "on_full": "dead-letter"}
        kind = random.choice(["tumbling", "session"])
        rule["window"] = {kind: "10s", "idle": "60s", "grace": random.choice(["0s", "2s", "20s"])}
    return {"from": "in", "aggregate": rule, "to": {"topic": "out"}}


def _merging(random: Random) -> Tree:
    """Windows that are put together of parts."""
    names = ["last1", "last2", "first1", "first2", *random.sample(["total", "mean", "kinds", "list"], 2)]
    window: Tree = {"session": "10s"} if random.random() < 0.5 else {"hopping": "10s", "every": "2s"}
    rule = {"compute": {name: REDUCERS[name] for name in names}, "window": {**window, "idle": "60s", "grace": "20s"}}
    return {"from": "in", "aggregate": rule, "to": {"topic": "out"}}


def _reducing(random: Random) -> Tree:
    """Groups of few records, and all that can be computed of them."""
    rule: Tree = {"compute": REDUCERS, "count": random.randint(1, 4), "on_missing": random.choice(["ignore", "skip"])}
    return {"from": "in", "aggregate": rule, "to": {"topic": "out"}}


def _readings(random: Random, agent: Tree) -> None:
    """where, let, dedupe, on_error."""
    if random.random() < 0.3:
        agent["where"] = random.choice([*WHERE])
    if random.random() < 0.3:
        agent["let"] = {"t": random.choice([*LETS])}
    if random.random() < 0.5:
        ids = ["header:e", "header:e", "e", "key", *(["t"] if "let" in agent else [])]
        horizon = random.choice([5, 60])
        agent["dedupe"] = {"id": random.choice(ids), "horizon": f"{horizon}s", "horizon_s": horizon}
        if random.random() < 0.6:
            agent["dedupe"]["max_ids"] = random.choice([1, 2])
        if random.random() < 0.4:
            agent["dedupe"]["on_missing"] = "accept"
    on_error = {name: "skip" for name in ("decode", "expression") if random.random() < 0.3}
    if on_error:
        agent["on_error"] = on_error


def _leave_out_idle(agent: Tree) -> None:
    """Leave out what `check` refuses because nothing of the agent asks for it."""
    rule = agent.get("aggregate", {})
    computed = any(isinstance(what, dict) for what in rule.get("compute", {}).values())
    if not (computed or "window" in rule or "key" in agent or isinstance(rule.get("until"), dict)):
        rule.pop("on_missing", None)
    policies, routes = agent.get("on_error", {}), agent["to"] if isinstance(agent["to"], list) else [agent["to"]]
    clauses = [agent.get(name) for name in ("where", "having")]
    clauses += [route.get("where") for route in routes if isinstance(route, dict)]
    selects = any("select" in route for route in routes if isinstance(route, dict))
    until = isinstance(agent.get("aggregate", {}).get("until"), str)
    if not (any(clauses) or selects or until or "let" in agent):
        policies.pop("expression", None)
    by_field = agent.get("dedupe", {}).get("id") in ("e", "t")
    if "aggregate" not in agent and not (by_field or selects or any(c and "message." not in c for c in clauses)):
        policies.pop("decode", None)
    if not policies:
        agent.pop("on_error", None)


def _rule(random: Random, agent: Tree, windowed: bool) -> None:
    rule: Tree = {}
    names = random.sample([*REDUCERS], random.randint(1, 5))
    rule["compute"] = {name: REDUCERS[name] for name in names}
    if "let" in agent and random.random() < 0.5:
        rule["compute"]["of_let"] = {random.choice(["last", "distinct", "collect"]): "t"}
    if random.random() < 0.3:
        agent["key"] = random.choice(["k", *(["t"] if "let" in agent else [])])
    for name, choices in {"on_null": ["skip"], "on_missing": ["skip", "ignore", "ignore"]}.items():
        if random.random() < 0.4:
            rule[name] = random.choice(choices)
    if windowed:
        _window(random, rule)
    else:
        after = {"after": f"{random.choice([3, 10])}s", "since": random.choice(["first", "last"])}
        if random.random() < 0.7:
            rule["timeout"] = after
            if random.random() < 0.3:
                rule["on_timeout"] = random.choice(["discard", "dead-letter"])
    kind = next((name for name in ("tumbling", "hopping", "session") if name in rule.get("window", {})), "")
    _ends(random, rule, kind)
    if ENDS.isdisjoint(rule):
        rule.pop("on_timeout", None)  # no group would have a result
    agent["aggregate"] = rule
    if random.random() < 0.3:
        agent["having"] = random.choice([text for text in HAVING if _answers(text, rule)])
    agent["to"] = _routes(random, lambda chosen: _of_results(chosen, rule))


def _answers(having: str, rule: Tree) -> bool:
    return not ("total" in having and "total" not in rule["compute"]) and not (
        "last1" in having and "last1" not in rule["compute"]
    )


def _ends(random: Random, rule: Tree, kind: str) -> None:
    """count, until, and limits, as far as they go with the window."""
    if kind in ("", "tumbling"):
        if random.random() < 0.4:
            rule["count"] = random.randint(1, 4)
        if random.random() < 0.4:
            until = [text for text in UNTIL if NEEDS.get(text, "total") in rule["compute"] or text not in NEEDS]
            fields: list[Any] = [{"field": "s", "equals": "end"}, {"field": "a", "equals": 3}]
            rule["until"] = random.choice([*until, *fields])
    if kind != "hopping":
        if random.random() < 0.3:
            rule["max_items"] = max(random.randint(1, 3), rule.get("count", 0))
        expression = isinstance(rule.get("until"), str)
        if random.random() < 0.4 and not (kind and expression):
            rule["max_groups"] = random.randint(1, 2)
        if random.random() < (0.8 if kind else 0.5):
            rule["on_full"] = "dead-letter"
    bags = [what for what in rule["compute"].values() if what == "collect" or BAGS & set(what)]
    if kind != "session" and bags == ["collect"] and random.random() < 0.8:
        rule["max_bytes"] = random.choice(["60B", "150B"])
    if kind == "hopping":
        rule.pop("max_bytes", None)


def _window(random: Random, rule: Tree) -> None:
    if rule.get("on_missing") == "ignore":
        rule["on_missing"] = "skip"
    kind = random.choice(["tumbling", "hopping", "session"])
    window: Tree = {kind: "10s", "idle": "5s"}
    if kind == "hopping":
        window["every"] = random.choice(["5s", "2s"])
    if random.random() < 0.3:
        window["grace"] = random.choice(["2s", "7s"])
    if kind != "session" and random.random() < 0.3:
        window["offset"] = "1s"
    if random.random() < 0.3:
        window["late"] = "skip"
    if random.random() < 0.5:
        window["time"] = {"field": "ts", "unit": "ms"}
    if kind == "tumbling" and random.random() < 0.2:
        window["at_most"] = "20s"
    rule["window"] = window


def _routes(random: Random, document: Any) -> Any:
    if random.random() < 0.5:
        return {"topic": "out", **document(random)[0]}
    routes: list[Any] = []
    for topic in random.sample(["out", "other", "third"], random.randint(2, 3)):
        select, where = document(random)
        before = [route.get("where", "") for route in routes if "continue" not in route]
        if "" in before or where in before:
            continue  # nothing would reach it
        routes.append({"topic": topic, **select, **({"where": where} if where else {})})
        if random.random() < 0.4:
            routes[-1]["continue"] = True
    routes[-1].pop("continue", None)
    if "where" in routes[-1] and random.random() < 0.5:
        routes.append("drop")
    return routes


def _of_results(random: Random, rule: Tree) -> tuple[Tree, str]:
    """What a route selects of a result, and its condition."""
    names = [*rule["compute"]]
    selects: list[Tree] = [
        {},
        {},
        {"select": ["key", "count", names[0]]},
        {"select": {"id": "key", "of": names[0], "twice": "count * 2"}},
    ]
    if "total" in names:
        selects.append({"select": {"sum2": "total + total", "timed_out": 'reason == "timeout"'}})
    wheres = ["", *(text for text in HAVING if _answers(text, rule))]
    return random.choice(selects), random.choice(wheres)


def _of_records(random: Random) -> tuple[Tree, str]:
    selects: list[Tree] = [
        {},
        {},
        {"select": ["s", "a"]},
        {"select": {"customer": "k", "amount": "a"}},
        {"select": {"many": "a > 1", "s": "s"}},
        {"select": {"name": 'default(s, "none")'}},
    ]
    return random.choice(selects), random.choice(["", *WHERE])


def _steps(random: Random, windowed: bool, base: int) -> list[Step]:
    steps: list[Step] = []
    elapsed = 0
    for _ in range(random.randint(3, 9)):
        if random.random() < 0.35:
            by = random.choice([1, 2, 4, 6, 20])
            elapsed += by
            steps.append(by)
        else:
            steps.append([_record(random, windowed, base, elapsed) for _ in range(random.choice([1, 2, 3, 4]))])
    return [*steps, 400]


def _record(random: Random, windowed: bool, base: int, elapsed: int) -> Record:
    moved = random.choice([-12, -5, -1, 0, 0, 0, 1, 3, 8, 25]) if windowed else 0
    at = 1000 * max(0, base + elapsed + moved)
    fields: Tree = {}
    for name, items in _VALUES.items():
        if random.random() < (0.9 if name == "ts" else 0.75):
            fields[name] = random.choice(items)
    if "ts" in fields:
        fields["ts"] = at if fields["ts"] else random.choice([None, "soon", -5])
    value: bytes | None = json.dumps(fields).encode()
    chance = random.random()
    if chance < 0.03:
        value = None
    elif chance < 0.06:
        value = b"{"
    elif chance < 0.08:
        value = b"[1]"
    header = random.choice(["1", "1", "2", "3", "", None]) if random.random() < 0.9 else None
    key = random.choice(["k1", "k1", "k2", "k3"]) if random.random() < 0.97 else None
    return Record(key, value, header, 1000 * (START + elapsed + moved), "")


_VALUES: dict[str, list[Any]] = {
    "a": [1, 2, 3, 3.0, 2.5, -1, 1, 2, "2", None, True, 1e308, 1e308, 1e308, 1e308],
    "s": ["x", "y", "end", "x", "y", 4, None],
    "k": [42, 42.0, "42", "k", True, "true", [1], [1.0], None],
    "e": ["1", 1, 1.0, "2", 2, 3, None, ""],
    "b": [None, False, 0],
    "ts": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
}


def _correlation(random: Random) -> Case:
    legs: Tree = {"a": {"from": "ta"}, "b": {"from": "tb", "keep": random.choice(["first", "last", "all", "all"])}}
    for leg in legs.values():
        if random.random() < 0.3:
            leg["key"] = "k"
        if random.random() < 0.3:
            leg["on_null"] = "skip"
    rule: Tree = {"legs": legs, "remember": random.choice(["0s", "8s", "60s"])}
    rule["timeout"] = {"after": random.choice(["3s", "6s"]), "clock": "wall", "since": random.choice(["first", "last"])}
    if legs["b"]["keep"] == "all" and random.random() < 0.6:
        rule["complete"] = "has(a) && size(b) >= 2"
    elif random.random() < 0.6:
        rule["complete"] = random.choice([text for text in COMPLETE if "size" not in text])
    if random.random() < 0.3:
        rule["late"] = "skip"
    if random.random() < 0.3:
        rule["max_keys"] = 1
    steps: list[Step] = []
    for _ in range(random.randint(4, 12)):
        if random.random() < 0.3:
            steps.append(random.choice([1, 2, 4, 9]))
            continue
        fields = {"v": random.choice([1, 1, 2]), "k": random.choice([42, 42, 42, 42.0, "42", 7])}
        value = None if random.random() < 0.05 else json.dumps(fields).encode()
        steps.append(
            [Record(random.choice(["42", "42", "7"]), value, None, 1000 * START, random.choice(["a", "b", "b"]))]
        )
    select = random.choice([{}, {"select": {"id": "key", "of_a": "a.v", "many": "count"}}])
    return Case({"correlate": rule, "to": {"topic": "out", **select}}, [*steps, 400])
