"""What an agent says of the records that it reads may stand in each leg of a correlation, and at the agent for all
legs: where, let, fields, dedupe, start, and the envelope of a topic."""

import re
from pathlib import Path
from typing import Any

import pytest

from sluicegate import App
from sluicegate.streams.config import words
from sluicegate.streams.config.checking import values
from sluicegate.streams.config.loading import Loaded
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play, play_with_crashes
from tests.unit.config.files import lines

CLOCKS = ("5s", "{after: 5s, clock: wall}")
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  settle:
    AGENT
    correlate:
      legs:
        order: ORDER
        payment: PAYMENT
      timeout: TIMEOUT
    to: {topic: settled}
tests:
  case:
"""


def written(
    folder: Path,
    steps: str = "    - advance: 1s\n",
    agent: str = "",
    order: str = "orders",
    payment: str = "payments",
    timeout: str = CLOCKS[0],
) -> Loaded:
    text = FILE.replace("AGENT", agent or "revision: '1'")
    for name, value in (("ORDER", order), ("PAYMENT", payment), ("TIMEOUT", timeout)):
        text = text.replace(name, value)
    (folder / "shop.yaml").write_text(text + steps)
    return loaded(folder / "shop.yaml")


def played(result: Loaded, crashes: bool = False) -> None:
    assert result.app is not None, result.problems
    values.check(result.app)
    assert play(result.app, result.cases[0]) is None
    if crashes:
        verdict = play_with_crashes(result.app, result.cases[0], lambda done, total: None)
        assert (verdict.failure, verdict.place) == (None, None)


# -- where, let and fields ---------------------------------------------------------------------------------------------

CLAUSES: dict[str, str] = {
    "agent": 'where: tenant == "a"\n    let: {ref: "id + \\"-\\" + tenant"}',
    "order": "{from: orders, key: ref, where: total > 0}",
    "payment": "{from: payments, let: {paid: amount - fee}, where: paid > 0, key: ref, keep: last, fields: {id: text, "
    "tenant: text, amount: number, fee: number}}",
}
CLAUSES_STEPS = """\
    - send: {topic: orders, key: x, value: {id: o, tenant: a, total: 5}}
    - send: {topic: payments, key: y, value: {id: o, tenant: b, amount: 5, fee: 1}}
    - send: {topic: payments, key: y, value: {id: o, tenant: a, amount: 1, fee: 1}}
    - send: {topic: orders, key: x, value: {id: n, tenant: a, total: 0}}
    - expect_nothing: settled
    - send: {topic: payments, key: y, value: {id: o, tenant: a, amount: 3, fee: 1}}
    - expect:
        topic: settled
        key: o-a
        value:
          order: {id: o, tenant: a, total: 5}
          payment: {id: o, tenant: a, amount: 3, fee: 1}
          reason: until
    - expect_nothing: shop.dead
"""


@pytest.mark.timeout(280)
@pytest.mark.parametrize("timeout", CLOCKS)
def test_conditions_and_computed_fields_of_the_agent_hold_for_each_leg(tmp_path: Path, timeout: str) -> None:
    played(written(tmp_path, CLAUSES_STEPS, **CLAUSES, timeout=timeout), crashes=True)


def test_twin_without_the_condition_of_the_agent_another_tenant_pays(tmp_path: Path) -> None:
    clauses = CLAUSES | {"agent": 'let: {ref: "id + \\"-a\\""}'}
    result = written(tmp_path, CLAUSES_STEPS, **clauses)
    assert result.app is not None
    assert play(result.app, result.cases[0]) is not None


def test_each_leg_agent_takes_and_computes_what_the_agent_and_the_leg_say(tmp_path: Path) -> None:
    app = written(tmp_path, **CLAUSES).app
    assert app is not None
    order, payment, main = app.agents
    assert (order.where, payment.where) == ('(tenant == "a") && (total > 0)', '(tenant == "a") && (paid > 0)')
    assert [[field.name for field in agent.let] for agent in app.agents] == [["ref"], ["ref", "paid"], []]
    assert (main.where, main.dedupe, main.events, main.start) == ("", None, (), "earliest")
    assert any('tenant is "a"' in sentence for sentence in words.meaning(payment))


def test_the_condition_of_a_leg_alone_stays_as_it_is_written(tmp_path: Path) -> None:
    app = written(tmp_path, payment="{from: payments, where: amount > 0}").app
    assert app is not None
    assert [agent.where for agent in app.agents] == ["", "amount > 0", ""]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"agent": "where: amount >"}, "agents.settle.where: "),
        ({"order": "{from: orders, where: amount >}"}, "agents.settle.correlate.legs.order.where: "),
        ({"order": "{from: orders, let: {a: b, b: 1}}"}, "legs.order.let.a: names b, which is computed after it"),
        ({"order": "{from: orders, let: {a-b: 1}}"}, "legs.order.let.a-b: is not a name that an expression can write"),
        (
            {"agent": "let: {a: 1}", "order": "{from: orders, let: {a: 2}}"},
            "legs.order.let.a: is computed for all legs already",
        ),
        ({"agent": "let: {a: '\"x\"'}", "order": "{from: orders, where: a > 1}"}, "legs.order.where: > "),
        ({"agent": "where: amount > 1", "order": "{from: orders, fields: {amount: text}}"}, "agents.settle.where: > "),
        ({"order": "{from: orders, fields: {id: text}, where: amont > 1}"}, "legs.order.where: "),
        (
            {"order": "{from: orders, format: avro, schema: a.avsc, fields: {id: text}}"},
            "legs.order.fields: is not for format: avro",
        ),
        (
            {"order": "{from: orders, fields: {amount: text}}", "timeout": "5s\n      complete: order.amount > 1"},
            "agents.settle.correlate.complete: > ",
        ),
        (
            {"agent": "fields: {amount: text}", "timeout": "5s\n      complete: payment.amount > 1"},
            "agents.settle.correlate.complete: > ",
        ),
    ],
)
def test_a_mistake_is_found_where_it_is_written(tmp_path: Path, keys: dict[str, str], line: str) -> None:
    result = written(tmp_path, **keys)
    assert result.app is None
    assert any(line in problem for problem in lines(result.problems, tmp_path)), lines(result.problems, tmp_path)


def test_fields_of_the_agent_are_those_of_each_leg_that_has_no_schema_and_none_of_its_own(tmp_path: Path) -> None:
    fields = "fields: {id: text}\n    where: id != ''"
    assert written(tmp_path, agent=fields).app is not None
    lacking = written(tmp_path, agent=fields, order="{from: orders, fields: {amount: number}}")
    assert [line for line in lines(lacking.problems, tmp_path) if "agents.settle.where" in line]


# -- dedupe and start --------------------------------------------------------------------------------------------------

TWICE = """\
    - send: {topic: orders, key: k, value: {id: o-1, total: 5}}
    - send: {topic: payments, key: k, headers: {event: p-1}, value: {id: p-1, amount: 1}}
    - send: {topic: payments, key: k, headers: {event: p-1}, value: {id: p-1, amount: 1}}
    - send: {topic: payments, key: k, headers: {event: p-2}, value: {id: p-2, amount: 2}}
    - expect:
        topic: settled
        key: k
        value: {payment: [{id: p-1, amount: 1}, {id: p-2, amount: 2}], count: 3}
    - expect_nothing: shop.dead
"""
ALL = "{from: payments, keep: all, DEDUPE}"
COMPLETE = "\n      complete: has(order) && size(payment) >= 2"


@pytest.mark.timeout(280)
@pytest.mark.parametrize("timeout", CLOCKS)
@pytest.mark.parametrize("id", ["header:event", "id"])
def test_a_leg_drops_what_its_producer_wrote_twice(tmp_path: Path, timeout: str, id: str) -> None:
    payment = ALL.replace("DEDUPE", f'dedupe: {{id: "{id}", horizon: 1h}}')
    played(written(tmp_path, TWICE, payment=payment, timeout=timeout + COMPLETE), crashes=True)


def test_twin_without_it_the_leg_has_the_record_twice(tmp_path: Path) -> None:
    result = written(tmp_path, TWICE, payment="{from: payments, keep: all}", timeout=CLOCKS[0] + COMPLETE)
    assert result.app is not None
    assert play(result.app, result.cases[0]) is not None


def test_ids_are_known_by_leg_and_a_leg_may_have_another_id(tmp_path: Path) -> None:
    """The order and the payment have one id: neither is a duplicate of the other."""
    steps = """\
    - send: {topic: orders, key: k, value: {id: 1, total: 5}}
    - send: {topic: payments, key: k, value: {id: 1, amount: 1}}
    - expect: {topic: settled, key: k, value: {count: 2, reason: until}}
"""
    played(written(tmp_path, steps, agent="dedupe: {id: id, horizon: 1h}"))
    payment = '{from: payments, dedupe: {id: "header:event", horizon: 2h, on_missing: accept}}'
    result = written(tmp_path, steps, agent="dedupe: {id: id, horizon: 1h}", payment=payment)
    played(result)
    assert result.app is not None
    kinds = [None if agent.dedupe is None else agent.dedupe.by for agent in result.app.agents]
    assert kinds == ["field", "header", None]
    assert any("whose header event was accepted" in sentence for sentence in words.meaning(result.app.agents[1]))


def test_a_record_without_an_id_is_a_dead_letter_of_the_topic_of_its_leg(tmp_path: Path) -> None:
    steps = """\
    - send: {topic: payments, key: k, value: {amount: 1}}
    - expect: {topic: shop.dead, reason: no-id}
"""
    played(written(tmp_path, steps, payment="{from: payments, dedupe: {id: id}}"))


def test_each_leg_begins_where_it_says_or_else_where_the_agent_says(tmp_path: Path) -> None:
    result = written(tmp_path, agent="start: latest", payment="{from: payments, start: earliest}")
    assert result.app is not None
    assert [agent.start for agent in result.app.agents] == ["latest", "earliest", "earliest"]
    values.check(result.app)


# -- CloudEvents -------------------------------------------------------------------------------------------------------

EVENTS = """\
    - send: {topic: orders, key: x, value: {id: o-1}}
    - send:
        topic: payments
        headers: {ce_specversion: "1.0", ce_id: "1", ce_source: /bank, ce_type: paid, content-type: application/json}
        value: {order: o-1, amount: 5}
    - expect:
        topic: settled
        key: o-1
        value: {order: {id: o-1}, payment: {id: "1", type: paid, data: {order: o-1, amount: 5}}}
    - send:
        topic: payments
        headers: {content-type: application/cloudevents+json}
        value: {specversion: "1.0", id: "1", source: /bank, type: paid, data: {order: o-1, amount: 5}}
    - send:
        topic: payments
        headers: {content-type: application/cloudevents+json}
        value: {specversion: "1.0", id: "2", source: /bank, type: asked, data: {order: o-1, amount: 5}}
    - expect_nothing: shop.dead
    - send: {topic: payments, key: x, value: {order: o-1}}
    - expect: {topic: shop.dead, reason: undecodable, value: {order: o-1}}
    - send:
        topic: payments
        headers: {ce_specversion: "1.0", ce_id: "3", ce_source: /bank, ce_type: paid, content-type: application/json}
        value: {order: o-1, amount: 5}
    - expect: {topic: shop.dead, reason: late, value: {id: "3", data: {order: o-1, amount: 5}}}
"""
EVENT_LEG = (
    "{from: {topic: payments, envelope: cloudevents}, key: data.order, dedupe: {id: id}, where: 'type == \"paid\"'}"
)


@pytest.mark.timeout(280)
@pytest.mark.parametrize("timeout", CLOCKS)
def test_a_leg_of_events_meets_a_leg_of_messages(tmp_path: Path, timeout: str) -> None:
    order = "{from: orders, key: id}"
    played(written(tmp_path, EVENTS, order=order, payment=EVENT_LEG, timeout=timeout), crashes=True)


def test_twin_a_leg_that_does_not_say_so_reads_no_event(tmp_path: Path) -> None:
    payment = "{from: payments, key: data.order}"
    result = written(tmp_path, EVENTS, order="{from: orders, key: id}", payment=payment)
    assert result.app is not None
    assert play(result.app, result.cases[0]) is not None


def test_what_another_app_sends_to_a_leg_twice_is_dropped(tmp_path: Path) -> None:
    result = written(tmp_path, payment="{from: [{topic: payments, dedupe: sluicegate}, more]}")
    assert result.app is not None
    assert [agent.receive for agent in result.app.agents[:2]] == [(), ("payments",)]
    values.check(result.app)


# -- in Python ---------------------------------------------------------------------------------------------------------


def test_the_keywords_say_the_same(tmp_path: Path) -> None:
    legs: dict[str, Any] = {
        "order": {"from": "orders", "key": "ref", "where": "total > 0"},
        "payment": {
            "from": {"topic": "payments", "envelope": "cloudevents"},
            "let": {"paid": "data.amount"},
            "dedupe": {"id": "header:event", "horizon": "1h"},
            "start": "latest",
            "where": "paid > 0",
        },
    }
    app = App("shop", store="sqlite:///state.db", kafka={"bootstrap.servers": "localhost:9092"}, dead_letters="dead")
    keys: dict[str, Any] = {"where": 'tenant == "a"', "let": {"ref": "id"}, "dedupe": {"id": "id"}, "to": "settled"}
    app.add("settle", correlate={"legs": legs, "timeout": "5s"}, **keys)
    app.check()
    (tmp_path / "shop.yaml").write_text(app.to_yaml())
    made = loaded(tmp_path / "shop.yaml").app
    assert made is not None
    assert [(agent.where, agent.start, agent.events) for agent in made.agents] == [
        ('(tenant == "a") && (total > 0)', "earliest", ()),
        ('(tenant == "a") && (paid > 0)', "latest", ("payments",)),
        ("", "earliest", ()),
    ]


def test_the_page_has_an_example(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "correlate.md").read_text(encoding="utf-8")
    section = page.partition("## Which records a leg takes")[2].partition("\n## ")[0]
    [example] = re.findall(r"```yaml\n(.*?)```", section, re.S)
    (tmp_path / "shop.yaml").write_text(example)
    played(loaded(tmp_path / "shop.yaml"), crashes=True)
