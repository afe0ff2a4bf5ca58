"""What `check` says of expressions: the line and column of the mistake, what is wrong, what to do."""

import pytest

from sluicegate.streams.config import meaning
from tests.unit.config.files import HEAD, agent, lines, loaded

AGGREGATE = "aggregate: {count: 10, compute: {spent: {sum: total}, rows: collect}}"
TO = "to: {topic: totals}"


def grouped(*more: str, aggregate: str = AGGREGATE, to: str = TO, form: str = "json") -> str:
    return agent("\n".join(["from: orders", f"format: {form}", *more, aggregate, to]))


def handled(*more: str, to: str = TO) -> str:
    return agent("\n".join(["from: orders", "handler: operator:neg", *more, to]))


def ended(until: str, *more: str) -> str:
    """With an `until` that begins in column 14 of line 10."""
    return grouped(
        *more, aggregate=f"aggregate:\n  until: {until}\n  compute: {{spent: {{sum: total}}, rows: collect}}"
    )


def forwarded(*more: str, to: str = TO) -> str:
    return agent("\n".join(["from: orders", *more, to]))


WRONG = [
    (grouped("where: status = 1"), "9:19: agents.a.where: unexpected '='; write == to compare"),
    (grouped('where: "status = 1"'), "9:20: agents.a.where: unexpected '='; write == to compare"),
    (
        grouped("where: >-", "  status", "  = 1"),
        "9:5: agents.a.where: character 8 of the expression: unexpected '='; write == to compare",
    ),
    (grouped("where: amount + 1"), "9:12: agents.a.where: must be boolean, amount + 1 is number"),
    (grouped("where: '\"x\" > 1'"), "9:13: agents.a.where: > takes two values of one type"),
    (grouped("where: mesage.keys == nope(1)"), "9:27: agents.a.where: no function nope"),
    (grouped("where: message.keys == 'a'"), "9:5: agents.a.where: message has no keys; did you mean key?"),
    (grouped("where: group.spent > 1"), "9:5: agents.a.where: names group, which only `until` can ask; "),
    (
        grouped("where: amount > 1", form="raw", aggregate="aggregate: {count: 10}"),
        "9:5: agents.a.where: needs the field amount, but raw records have none; ask for message.key",
    ),
    (ended("group.spent = 1"), "10:26: agents.a.aggregate.until: unexpected '='; write == to compare"),
    (ended("group.spent + 1"), "10:14: agents.a.aggregate.until: must be boolean, group.spent + 1 is number"),
    (ended("group.spend > 1"), "10:20: agents.a.aggregate.until: no field spend in group; did you mean spent?"),
    (ended("group.counts > 1"), "10:20: agents.a.aggregate.until: no field counts in group; did you mean count?"),
    (ended("size(group) > 1"), "10:7: agents.a.aggregate.until: names group as a whole; write group.count, or "),
    (
        ended("size(group.rows) > 1"),
        "10:7: agents.a.aggregate.until: asks for group.rows, which is computed by collect; ask for a value of count, ",
    ),
    (ended('group.spent > "x"'), "agents.a.aggregate.until: > takes two values of one type"),
    (ended("message.keys == 1"), "10:7: agents.a.aggregate.until: message has no keys; did you mean key?"),
    (
        ended("group.spent > 1", "scope: shared"),
        "agents.a.aggregate.until: asks for group, and needs scope partition for it",
    ),
    (
        ended("message.timestamp > timestamp('2026-01-01T00:00:00Z')", "key: customer", "repartition: by-customer"),
        "agents.a.aggregate.until: asks for message.timestamp, but is asked of the record that repartition wrote anew",
    ),
    (
        ended("at > 1", "key: customer", "repartition: by-customer", "let: {at: message.offset}"),
        "agents.a.aggregate.until: asks for message.offset, but is asked of the record that repartition wrote anew; ",
    ),
    (
        agent(f"from: orders\nformat: raw\naggregate: {{until: amount > 1}}\n{TO}"),
        "9:17: agents.a.aggregate.until: needs the field amount, but raw records have none; ask for message.key",
    ),
    (
        agent(f"from: orders\naggregate: {{until: [1]}}\n{TO}"),
        "8:17: agents.a.aggregate.until: must be text, and YAML takes this for a list; quote the expression",
    ),
    (
        agent(f"from: orders\naggregate: {{until: {{field: x, equal: 1}}}}\n{TO}"),
        "agents.a.aggregate.until.equal: unknown key; did you mean equals?",
    ),
    (grouped("let: {total: amount *}"), "9:26: agents.a.let.total: "),
    (
        grouped("let: {total: other + 1, other: amount}"),
        "9:11: agents.a.let.total: names other, which is computed after it; name only fields of the record",
    ),
    (grouped("let: {total: total + 1}"), "9:11: agents.a.let.total: names itself; "),
    (grouped("let: {message: amount}"), "9:11: agents.a.let.message: is a reserved name of expressions; "),
    (grouped('let: {"a-b": amount}'), "9:11: agents.a.let.a-b: is not a name that an expression can write; "),
    (grouped("having: spend > 1"), "9:13: agents.a.having: no field spend in the result; did you mean spent?"),
    (grouped("having: rows > 1"), "9:13: agents.a.having: > takes two values of one type"),
    (handled("having: count > 1"), "9:5: agents.a.having: asks the result of a group, but there is no aggregate; "),
    (grouped(to="to: {topic: t, where: spent > 1}"), "10:20: agents.a.to.where: belongs to one of several routes; "),
    (grouped(to="to: {topic: t, continue: true}"), "10:20: agents.a.to.continue: belongs to one of several routes; "),
    (grouped(to="to: {topic: t, select: [spend]}"), "10:20: agents.a.to.select: names spend, which is not a field of "),
    (grouped(to="to: {topic: t, select: {x: spend}}"), "10:32: agents.a.to.select.x: no field spend in the result; "),
    (
        grouped(to='to: {topic: t, select: {"x-y": spent}, format: avro}'),
        "agents.a.to: cannot hold the selected field 'x-y'; name it with letters, digits and _ only",
    ),
    (
        grouped(to="to: [{topic: t}, {topic: u}]"),
        "10:22: agents.a.to[1]: is never reached: t takes every record; give the route before it a `where`",
    ),
    (
        grouped(to='to: [{topic: t, where: "true"}, {topic: u, where: spent > 1}]'),
        "10:37: agents.a.to[1]: is never reached: t takes every record; ",
    ),
    (
        grouped(to="to: [{topic: t, where: spent > 1}, {topic: v}, {topic: u, where: spent>1}]"),
        "agents.a.to[2]: is never reached: v takes every record; ",
    ),
    (
        grouped(to="to: [{topic: t, where: spent > 1}, {topic: u, where: spent>1}, drop]"),
        "10:40: agents.a.to[1]: is never reached: route 1, t, has the same `where`; give it another ",
    ),
    (
        grouped(to="to: [{topic: t, continue: true, select: [key]}, {topic: t, select: [key]}]"),
        "10:53: agents.a.to[1]: is the same as route 1: every result would be written twice; leave one of them out",
    ),
    (grouped(to="to: [{topic: t}, drop]"), "agents.a.to[1]: is never reached: t takes every record"),
    (
        grouped(to="to: {topic: t, select: [key, spent, key]}"),
        "10:20: agents.a.to.select: names key twice; keep one of them",
    ),
    (grouped(to="to: [drop]"), "10:5: agents.a.to: names no route; write {topic: NAME}, or a list of "),
    (grouped(to="to: [drop, {topic: t}]"), "10:5: agents.a.to: has drop before another route; write drop as the last"),
    (grouped(to="to: [{topic: orders}]"), "10:11: agents.a.to[0].topic: is a topic that this agent reads"),
    (grouped(to="to: [{topic: t, wher: spent > 1}]"), "10:21: agents.a.to[0].wher: unknown key; did you mean where?"),
    (
        handled(to="to: [{topic: t, where: message.key == 'a'}, {topic: u}]"),
        "agents.a.to[0].where: names message, but sees only the value that the handler sends; ask for fields of that ",
    ),
    (handled(to="to: [{topic: t, where: a + }]"), "agents.a.to[0].where: "),
    (handled(to="to: [{topic: t, where: lower(a) > 1}]"), "agents.a.to[0].where: "),
    (handled(to="to: [{topic: t}, {topic: t}]"), "agents.a.to[1]: is never reached: t takes every record"),
    (
        grouped("let: {total: message.offset}", "key: customer", "repartition: by-customer"),
        "agents.a.let.total: asks for message.offset, but is computed of the record that repartition wrote anew; ",
    ),
    (
        grouped("let: {total: message.offset}", "scope: shared"),
        "agents.a.let.total: asks for message.offset, but is computed when the batch of the shared buffer fires; ",
    ),
    (
        grouped("let: {total: int(message.headers.n)}", "handler: operator:neg"),
        "agents.a.let.total: asks for message, but a group keeps no messages for a handler that names bad items; ",
    ),
    (forwarded("where: amount > 1", to=""), "agents.a: does nothing: it has no aggregate, no handler and no to; "),
    (
        forwarded("key: customer", "repartition: by-customer"),
        "9:5: agents.a.repartition: is not needed: a record that is forwarded goes to its output under the key that "
        "key: names; leave it out, or write key alone",
    ),
    (
        forwarded("key: customer", "format: raw"),
        "8:5: agents.a.key: needs a field, but raw records have none; use format: json, or leave the field out",
    ),
    (forwarded("fields: {id: text}", "key: customer"), "agents.a.key: needs customer, but fields has no such field; "),
    (forwarded("having: count > 1"), "8:5: agents.a.having: asks the result of a group, but there is no aggregate; "),
    (forwarded("scope: shared"), "agents.a.scope: has no meaning without an aggregation; "),
    (forwarded("concurrency: 3"), "agents.a.concurrency: belongs to a handler, but there is none; "),
    (
        forwarded(to="to: {topic: t, format: avro}"),
        "8:5: agents.a.to: has no schema, and a record that is forwarded has none of its own; write schema: FILE.avsc",
    ),
    (
        forwarded("format: raw", to="to: [{topic: t, format: json}]"),
        "9:21: agents.a.to[0].format: does not apply: a raw value has no document, so it goes on as it came; leave it ",
    ),
    (
        forwarded("format: raw", to="to: {topic: t, envelope: {cloudevents: binary, type: t}}"),
        "9:20: agents.a.to.envelope: does not apply: a raw value has no document, so it goes on as it came; leave it ",
    ),
    (
        forwarded(to="to: {topic: t, where: a > 1}"),
        "to.where: belongs to one of several routes; write a list of routes ",
    ),
    (forwarded(to="to: {topic: t, where: a > 1}"), "under to, or where: of the agent for every record"),
    (
        forwarded(to='to: {topic: t, select: ["a-b"]}'),
        "8:20: agents.a.to.select: names a-b, which no expression can name as a field; ",
    ),
    (
        forwarded(to="to: {topic: t, select: [message]}"),
        "8:20: agents.a.to.select: names message, which no expression can name as a field; ",
    ),
    (forwarded(to="to: {topic: t, select: {x: a +}}"), "agents.a.to.select.x: "),
    (forwarded(to="to: [{topic: t, where: amount + 1}]"), "8:28: agents.a.to[0].where: must be boolean, "),
    (forwarded(to="to: [{topic: t, where: message.keys == 'a'}]"), "agents.a.to[0].where: message has no keys; "),
    (forwarded("let: {total: amount * 2}", to="to: [{topic: t, where: total == 'x'}]"), "agents.a.to[0].where: "),
    (
        forwarded("format: raw", to="to: [{topic: t, where: amount > 1}]"),
        "agents.a.to[0].where: needs the field amount, but raw records have none; ask for message.key",
    ),
    (
        forwarded("format: raw", to="to: {topic: t, select: [amount]}"),
        "agents.a.to.select: needs the field amount, but raw records have none; ask for message.key",
    ),
    (
        forwarded(to="to: [{topic: t, continue: true}, {topic: t}]"),
        "agents.a.to[1]: is the same as route 1: every record would be written twice; leave one of them out",
    ),
    (forwarded(to="to: [{topic: t}, {topic: u}]"), "agents.a.to[1]: is never reached: t takes every record; "),
    (forwarded(to="to: {topic: orders}"), "agents.a.to.topic: is a topic that this agent reads: "),
    (grouped("on_error: {expression: wait}"), "agents.a.on_error.expression: must be dead-letter, skip or stop; "),
    (grouped("where:"), "9:5: agents.a.where: is empty; write an expression, such as amount > 100, or leave it out"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_mistake_in_an_expression_is_named(text, expected, tmp_path):
    complaints = lines(loaded(tmp_path, text).problems, tmp_path)
    assert [complaint for complaint in complaints if expected in complaint], complaints


SYNTAX = "file: is not valid YAML"
UNQUOTED = [
    ("where: !paid", "8:12: file: YAML takes the '!' at the beginning for a tag; "),
    ("let:\n  late: !paid", "9:13: file: YAML takes the '!' at the beginning for a tag; "),
    ("where: !has(a) && b", f"8:21: {SYNTAX} (expected alphabetic or numeric character, but found '&'); "),
    ("let: {t: !paid}", f"8:19: {SYNTAX} (expected ' ', but found '}}'); "),
    ('where: "x" == y', f"8:16: {SYNTAX} (expected <block end>, but found '<scalar>'); "),
    ('where: a == "b: c"', f"8:19: {SYNTAX} (mapping values are not allowed here); "),
    ('let: {t: a in ["DE"]}', f"8:19: {SYNTAX} (expected ',' or '}}', but got '['); "),
    ("let: {t: items[0]}", f"8:19: {SYNTAX} (expected ',' or '}}', but got '['); "),
    ('let:\n  t: x\n  u: "a" + b', f"10:14: {SYNTAX} (expected <block end>, but found '<scalar>'); "),
    ("let: {t: default(qty, 1)}", "8:25: agents.a.let.t: ends too early; finish it; where YAML ended it at a comma, "),
    ("let: {t: default(qty, 1)}", "8:27: agents.a.let.1): is empty; write an expression; if this is the rest of one "),
    ("let: {t: [a, b]}", "8:11: agents.a.let.t: must be text, and YAML takes this for a list; "),
    ("where: {a: 1}", "8:5: agents.a.where: must be text, and YAML takes this for a mapping; "),
    ("to: {topic: t, select: {a: f(x, y)}}", "8:20: agents.a.to.select: has a field without an expression; "),
    ("to: [{topic: t, where: size(key, 1) > 2}]", "8:36: agents.a.to[0].where: ends too early; "),
]


@pytest.mark.parametrize(("text", "expected"), UNQUOTED)
def test_an_expression_that_yaml_cuts_must_be_quoted(text, expected, tmp_path):
    to = "" if text.startswith("to:") else TO
    complaints = lines(
        loaded(tmp_path, agent(f"from: orders\n{text}\naggregate: {{count: 10}}\n{to}")).problems, tmp_path
    )
    assert [complaint for complaint in complaints if expected in complaint and "quote the expression" in complaint], (
        complaints
    )


def test_where_no_expression_stands_nothing_is_said_of_one(tmp_path):
    text = agent(f"from: orders\nwhere: paid\naggregate: {{count: 10]\n{TO}")
    [problem] = lines(loaded(tmp_path, text).problems, tmp_path)
    assert "is not valid YAML" in problem
    assert "quote" not in problem


RIGHT = [
    (grouped("where: true"), "takes only records where "),
    (
        grouped('where: status == "paid" && country in ["DE", "FR"]'),
        'takes only records where status is "paid" and country is one of "DE", "FR"; leaves out and counts the others',
    ),
    (grouped('let: {total: "amount * default(qty, 1)"}'), "computes total = amount * default(qty, 1)"),
    (grouped("having: spent >= 1000"), "sends a result only where spent is at least 1000"),
    (grouped(to="to: {topic: t, select: [key, spent]}"), "writes key, spent to t as json"),
    (
        grouped(to="to: [{topic: t, where: spent > 1, continue: true}, {topic: u, where: count > 3}, drop]"),
        "route 1: writes what it takes to t as json where spent is more than 1, and asks the next route, too",
    ),
    (
        grouped(to="to: [{topic: t, continue: true}, {topic: u}]"),
        "route 1: writes what it takes to t as json, and asks",
    ),
    (grouped(to="to: [{topic: t, continue: true}, {topic: t, select: [key]}]"), "route 2: writes "),
    (
        grouped(to="to: [{topic: t, where: spent > 1, continue: true}, {topic: u, where: spent > 1}, drop]"),
        "route 2: writes ",
    ),
    (grouped(to="to: [{topic: u, where: count > 3}]"), "makes a dead letter of what no route takes"),
    (ended("group.spent >= 500"), "ends a group when its spent is at least 500"),
    (ended('group.count > 3 && kind == "group.x"'), 'ends a group when its count is more than 3 and kind is "group.x"'),
    (ended("'group.spent * 2 > total ? true : false'"), "ends a group when `group.spent * 2 > total ? true : false`"),
    (
        grouped("where: total > 1", "on_error: {expression: stop}"),
        "stops the partition at a record for which an expression has no answer",
    ),
    (grouped("key: customer", "repartition: by-customer", "where: paid"), "takes only records where paid"),
    (forwarded(), "forwards the record unchanged to totals"),
    (forwarded("format: raw", to="to: {topic: t, format: raw}"), "forwards the record unchanged to t"),
    (forwarded(to="to: {topic: t, select: [a, b]}"), "writes a, b to t as json"),
    (
        forwarded(to="to: [{topic: t, where: spent > 1, continue: true}, {topic: u, select: {x: a}}]"),
        "route 1: forwards the record unchanged to t where spent is more than 1, and asks the next route, too",
    ),
    (
        forwarded(to="to: [{topic: t, where: spent > 1}, {topic: u, select: {x: a}}]"),
        "route 2: writes x = a to u as json",
    ),
    (forwarded(to="to: [{topic: t, where: spent > 1}]"), "makes a dead letter of what no route takes"),
    (forwarded(to="to: [{topic: t, where: spent > 1}, drop]"), "leaves out and counts what no route takes"),
]


@pytest.mark.parametrize(("text", "expected"), RIGHT)
def test_what_is_right_is_said_in_words(text, expected, tmp_path):
    file = loaded(tmp_path, text)
    assert not file.problems
    sentences = [sentence for agent in file.app.agents for sentence in meaning(agent)]
    assert [sentence for sentence in sentences if sentence.startswith(expected)], sentences


def test_an_agent_that_forwards_is_said_in_words(tmp_path):
    routes = """
        from: payments
        where: amount > 0
        to: [{topic: review, where: "amount > 10000 || default(risk, 0) >= 80"}, {topic: rest}]
        """
    assert meaning(loaded(tmp_path, agent(routes)).app.agents[0]) == [
        "reads payments as json",
        "takes only records where amount is more than 0; leaves out and counts the others",
        "route 1: forwards the record unchanged to review where amount is more than 10000 or default(risk, 0) is at "
        "least 80",
        "route 2: forwards the record unchanged to rest",
        "sends records that it cannot use to shop.dead, byte for byte",
    ]


CIRCLE = """
  b:
    from: totals
    to: [{topic: orders, where: amount > 1}, drop]
"""


def test_a_circle_of_agents_that_forward_is_warned_of(tmp_path):
    file = loaded(tmp_path, forwarded() + CIRCLE)
    assert not file.problems
    warned = [line for line in lines(file.warnings, tmp_path) if "comes back to this agent through" in line]
    assert [warning.split(": ")[1] for warning in warned] == ["agents.a.to.topic", "agents.b.to"]
    assert [agent.receive for agent in file.app.agents] == [("orders",), ("totals",)]


def test_a_circle_that_no_record_leaves_is_refused(tmp_path):
    agents = (
        "agents:\n  a: {from: x, to: y}\n  b: {from: y, to: z}\n  c: {from: z, to: [{topic: x, continue: true}, o]}\n"
    )
    file = loaded(tmp_path, HEAD + agents)
    never = "and no agent leaves a record out: each would come for ever; write to another topic, or end the circle with"
    assert lines(file.problems, tmp_path) == [
        f"f.yaml:6:16: agents.a.to.topic: comes back to this agent through b, c, {never} a where",
        f"f.yaml:7:16: agents.b.to.topic: comes back to this agent through c, a, {never} a where",
        f"f.yaml:8:16: agents.c.to: comes back to this agent through a, b, {never} a where",
    ]
    assert loaded(tmp_path, HEAD + agents.replace("{from: y,", "{from: y, where: n > 1,")).app is not None
