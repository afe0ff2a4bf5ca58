"""What a file becomes: the values that run."""

import msgspec
import pytest

from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    App,
    Deduplication,
    Destination,
    Handler,
    Http,
    Outbox,
    Reducer,
    Threshold,
    Timeouts,
    Until,
)
from tests.unit.config.files import GOOD, agent, loaded

EVERYTHING = """\
app: flights
kafka:
  bootstrap.servers: ${KAFKA_BOOTSTRAP_SERVERS:-localhost:9092}    # or `embedded`
store: ${STORE_URL:-sqlite:///state.db}
dead_letters: flights.dead
accept_level: lossy
auto_migrate: false
start_timeout: 1.5m
http: {port: 0, host: "::1", token: "${TOKEN}"}
outbox:
  lanes: 4
  order: key
  attempts: 3
  backoff: 2s..30s
  retention: 2h
  poll: 250ms
  lease: 10s
  degraded: {age: 30s, dead: 2}
  unhealthy: {age: 5m, dead: 20}
timeouts: {lease: 1m, batch: 100, poll: 500ms}

agents:
  delays:
    from: flights
    format: json
    key: message
    scope: partition
    start: 2026-01-31T12:00:00+01:00
    max_record_bytes: 64KiB
    dedupe: {id: header:message-id, horizon: 1h, on_missing: accept, max_ids: 500}
    aggregate:
      count: 100
      timeout: {after: 30s, since: first}
      until: {field: status, equals: landed}
      compute:
        flights: count
        worst: {max: dep_delay}
        mean: {mean: dep_delay}
        carriers: {distinct: carrier}
        rows: collect
        tails: {collect: tail}
        own: {reduce: "operator:add"}
      on_timeout: dead-letter
      on_missing: skip
      on_null: skip
      on_full: stop
      max_items: 200
      max_bytes: 1MB
      max_groups: 3
      max_buffered_bytes: 1.5GiB
    to: {topic: delays, format: json}
  worst:
    from: [delays, {topic: elsewhere, dedupe: sluicegate}, plain]
    key: {field: message}
    aggregate:
      timeout: {first: 1h, last: 250ms}
    dead_letters: worst.dead
    to: {topic: worst, format: "json:loads"}
"""


DELAYS = Aggregation(
    key=None,
    count=100,
    since_first=30.0,
    until=Until("status", "landed"),
    compute=(
        Reducer("flights", "count"),
        Reducer("worst", "max", "dep_delay"),
        Reducer("mean", "mean", "dep_delay"),
        Reducer("carriers", "distinct", "carrier"),
        Reducer("rows", "collect"),
        Reducer("tails", "collect", "tail"),
        Reducer("own", "reduce", function="operator:add"),
    ),
    on_timeout="dead-letter",
    on_missing="skip",
    on_null="skip",
    on_full="stop",
    max_items=200,
    max_bytes=1_000_000,
    max_groups=3,
    max_buffered_bytes=1536 * 1024 * 1024,
)


OUTBOX = Outbox(
    2.0, 30.0, Threshold(30.0, 2), Threshold(300.0, 20), lanes=4, attempts=3, retention=7200.0, poll=0.25, lease=10.0
)


def test_every_key_of_the_file_arrives_where_it_belongs(tmp_path):
    text = EVERYTHING.replace(', format: "json:loads"', "")
    file = loaded(tmp_path, text, {"TOKEN": "0123456789abcdef"})
    assert file.problems == ()
    assert file.app == App(
        name="flights",
        store="sqlite:///state.db",
        agents=(
            Agent(
                "delays",
                ("flights",),
                DELAYS,
                Destination("delays"),
                "flights.dead",
                start=1769857200.0,
                max_record_bytes=65536,
                dedupe=Deduplication("header", "message-id", horizon=3600.0, on_missing="accept", max_ids=500),
            ),
            Agent(
                "worst",
                ("delays", "elsewhere", "plain"),
                Aggregation(key="message", since_first=3600.0, since_last=0.25),
                Destination("worst"),
                "worst.dead",
                receive=("delays", "elsewhere"),
            ),
        ),
        kafka={"bootstrap.servers": "localhost:9092"},
        accept_level="lossy",
        auto_migrate=False,
        start_timeout=90.0,
        http=Http(0, "::1", "0123456789abcdef"),
        folder=str(tmp_path),
        outbox=OUTBOX,
        timeouts=Timeouts(60.0, 100, 0.5),
    )


def test_an_app_survives_the_trip_through_json(tmp_path):
    app = loaded(tmp_path, EVERYTHING.replace(', format: "json:loads"', ""), {"TOKEN": "0123456789abcdef"}).app
    assert msgspec.json.decode(msgspec.json.encode(app), type=App) == app


def test_what_is_left_out_has_the_defaults_of_the_run(tmp_path):
    text = GOOD.replace("dead_letters: shop.dead\n", "")
    app = loaded(tmp_path, text).app
    plain = Agent("a", ("orders",), Aggregation(count=10), Destination("totals"), "shop.dead")
    kafka, folder = {"bootstrap.servers": "localhost:9092"}, str(tmp_path)
    assert app == App(
        "shop", "sqlite:///state.db", (plain,), kafka, folder=folder, outbox=Outbox(), timeouts=Timeouts()
    )


def test_what_is_false_is_off(tmp_path):
    app = loaded(tmp_path, GOOD + "outbox: false\ntimeouts: false\n").app
    assert (app.outbox, app.timeouts) == (None, None)


@pytest.mark.parametrize(
    ("timeout", "first", "last"),
    [
        ("{after: 5s}", 5, None),
        ("{after: 5s, since: last}", None, 5),
        ("{first: 5s}", 5, None),
        ("{last: 5s}", None, 5),
        ("{first: 9s, last: 5s}", 9, 5),
    ],
)
def test_a_timeout_counts_from_the_first_or_the_last_record(tmp_path, timeout, first, last):
    rule = (
        loaded(tmp_path, agent(f"from: t\naggregate: {{timeout: {timeout}}}\nto: {{topic: o}}"))
        .app.agents[0]
        .aggregation
    )
    assert (rule.since_first, rule.since_last) == (first, last)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("message", None), ("a", "a"), ("a.b", "a.b"), ("{field: message}", "message"), ("{field: a.b}", "a.b")],
)
def test_a_key_is_the_message_key_or_a_field(tmp_path, key, expected):
    assert (
        loaded(tmp_path, agent(f"from: t\nkey: {key}\naggregate: {{count: 2}}\nto: {{topic: o}}"))
        .app.agents[0]
        .aggregation.key
        == expected
    )


@pytest.mark.parametrize(
    ("start", "expected"), [("earliest", "earliest"), ("latest", "latest"), ("1970-01-01T00:00:01.5Z", 1.5)]
)
def test_a_new_agent_starts_where_the_file_says(tmp_path, start, expected):
    assert (
        loaded(tmp_path, agent(f"from: t\nstart: {start}\naggregate: {{count: 2}}\nto: {{topic: o}}"))
        .app.agents[0]
        .start
        == expected
    )


def test_the_limit_of_items_is_never_below_the_count_unless_it_is_written(tmp_path):
    rule = loaded(tmp_path, agent("from: t\naggregate: {count: 150000}\nto: {topic: o}")).app.agents[0].aggregation
    assert (rule.count, rule.max_items) == (150_000, 150_000)


def test_dead_letters_of_an_agent_are_received_without_repeats_too(tmp_path):
    text = GOOD + "  b: {from: shop.dead, aggregate: {count: 2}, to: {topic: o}, dead_letters: b.dead}\n"
    assert [a.receive for a in loaded(tmp_path, text).app.agents] == [(), ("shop.dead",)]


@pytest.mark.parametrize(
    ("of_the_file", "of_the_agent", "expected"),
    [
        ("f.dead", "a.dead", ("a.dead", "sluicegate")),
        ("{topic: f.dead, headers: connect}", "null", ("f.dead", "connect")),
        ("{topic: f.dead, headers: connect}", "a.dead", ("a.dead", "connect")),
        ("{topic: f.dead, headers: connect}", "{headers: sluicegate}", ("f.dead", "sluicegate")),
        ("{headers: connect}", "null", ("shop.dead", "connect")),
        ("f.dead", "{headers: connect}", ("f.dead", "connect")),
        ("f.dead", "{topic: a.dead, headers: connect}", ("a.dead", "connect")),
        ("f.dead", "{}", ("f.dead", "sluicegate")),
    ],
)
def test_an_agent_takes_each_key_of_dead_letters_from_the_file_unless_it_has_its_own(
    tmp_path, of_the_file, of_the_agent, expected
):
    text = agent(f"from: t\naggregate: {{count: 2}}\nto: {{topic: o}}\ndead_letters: {of_the_agent}")
    [made] = loaded(tmp_path, text.replace("dead_letters: shop.dead", f"dead_letters: {of_the_file}")).app.agents
    assert (made.dead_letters, made.dead_headers) == expected


@pytest.mark.parametrize(
    ("http", "expected"),
    [
        ("false", None),
        ("{}", Http()),
        ("{port: 1, host: 0.0.0.0, token: abcdefghijklmnop}", Http(1, "0.0.0.0", "abcdefghijklmnop")),
    ],
)
def test_the_port_can_be_moved_and_closed(tmp_path, http, expected):
    assert loaded(tmp_path, GOOD + f"http: {http}\n").app.http == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("header:message-id", ("header", "message-id")),
        ("header:a:b", ("header", "a:b")),
        ("{header: key}", ("header", "key")),
        ("key", ("key", None)),
        ("{field: key}", ("field", "key")),
        ("order.id", ("field", "order.id")),
        ("5", ("field", "5")),
    ],
)
def test_an_id_is_a_header_a_field_or_the_key(tmp_path, written, expected):
    file = loaded(tmp_path, agent(f"from: a\ndedupe: {{id: {written}}}\naggregate: {{count: 1}}\nto: {{topic: o}}"))
    assert file.problems == ()
    assert file.app.agents[0].dedupe == Deduplication(*expected)


def test_duplicates_are_dropped_after_repartition_where_all_of_a_key_are_together(tmp_path):
    text = GOOD.replace(
        "from: orders", "from: orders\n    key: customer.id\n    repartition: t\n    dedupe: {id: order.id}"
    )
    assert [agent.dedupe for agent in loaded(tmp_path, text).app.agents] == [None, Deduplication("field", "order.id")]


def test_repartition_makes_two_agents_of_one(tmp_path):
    app = loaded(
        tmp_path,
        GOOD.replace("from: orders", "from: orders\n    key: customer.id\n    repartition: orders-by-customer"),
    ).app
    first, second = app.agents
    assert (first.name, first.topics, first.rekeys, first.to.topic) == (
        "a.repartition",
        ("orders",),
        "a",
        "orders-by-customer",
    )
    assert first.aggregation.key == "customer.id"
    assert (second.name, second.topics, second.receive) == ("a", ("orders-by-customer",), ("orders-by-customer",))
    assert (second.aggregation.key, second.aggregation.count) == (None, 10)


def test_a_handler_needs_neither_an_aggregation_nor_an_output(tmp_path):
    text = GOOD.replace(
        "aggregate: {count: 10}",
        "handler: builtins:len\n    session: true\n    retry: {attempts: 3, backoff: 100ms..5s}\n    then: stop",
    )
    [agent] = loaded(tmp_path, text.replace("    to: {topic: totals}\n", "")).app.agents
    assert (agent.aggregation, agent.to) == (None, None)
    assert agent.handler == Handler(("builtins:len",), 0.1, 5.0, session=True, attempts=3, then="stop")


def test_one_word_is_the_topic_of_results_and_the_time_since_the_first_record(tmp_path):
    short = loaded(tmp_path, agent("from: a\naggregate: {count: 2, timeout: 30s}\nto: out")).app
    long = loaded(tmp_path, agent("from: a\naggregate: {count: 2, timeout: {after: 30s}}\nto: {topic: out}")).app
    assert short == long
    routes = loaded(tmp_path, agent("from: a\nto: [{topic: big, where: amount > 100}, rest]")).app.agents[0].routes
    assert [(route.topic, route.where) for route in routes] == [("big", "amount > 100"), ("rest", "")]
