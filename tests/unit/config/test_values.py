"""Values built in Python pass the checks of the file, with its words."""

from dataclasses import replace

import pytest

from sluicegate.schemas.options import Avro
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    App,
    Deduplication,
    Destination,
    EventEnvelope,
    Handler,
    Http,
    OnError,
    Outbox,
    Reducer,
    Threshold,
    Timeouts,
    Until,
)
from sluicegate.streams.config import build, loading
from sluicegate.streams.config.checking import values
from sluicegate.streams.config.text.document import FileDocument
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.processes import supervisor
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.config.files import GOOD, agent, loaded
from tests.unit.config.test_build import EVERYTHING

RULE = Aggregation(count=2, compute=(Reducer("x", "sum", "amount"),))
GROUPS = Agent(name="a", topics=("in",), aggregation=RULE, to=Destination(topic="out"), dead_letters="dead")
CALLS = replace(GROUPS, aggregation=None, to=None, handler=Handler(functions=("operator:neg",)))
APP = App(name="shop", store="memory://", agents=(GROUPS,), kafka={"bootstrap.servers": "localhost:9092"})
REPARTITION = """
from: orders
key: customer
repartition: by-customer
start: latest
aggregate: {count: 10, on_missing: skip}
to: {topic: totals}
"""
AVRO = """
from: orders
format: avro
schema: order.avsc
schema_id: 7
framing: confluent
aggregate: {count: 10, compute: {spent: {sum: amount}}}
to: {topic: totals, format: avro, framing: confluent, schema_id: 8}
"""
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]}'


def a_function() -> None:
    pass


def having(**fields: object) -> App:
    """Ours with other values of its agent."""
    return replace(APP, agents=(replace(GROUPS, **fields),))


def ruled(**fields: object) -> App:
    return having(aggregation=replace(RULE, **fields))


def computing(*reducers: object) -> App:
    return ruled(compute=reducers)


def calling(**fields: object) -> App:
    return replace(APP, agents=(replace(CALLS, handler=Handler(**{"functions": ("operator:neg",)} | fields)),))


COMPUTE = "agents.a.aggregate.compute.x"
WRONG = {
    "reducer": (computing(Reducer("x", "summ", "amount")), f"{COMPUTE}: is not a reducer; did you mean sum?"),
    "no field": (computing(Reducer("x", "sum")), f"{COMPUTE}: is not a reducer; write {{sum: FIELD}}"),
    "field of count": (computing(Reducer("x", "count", "n")), f"{COMPUTE}: takes no field; write count"),
    "field path": (
        computing(Reducer("x", "sum", "a..b")),
        f"{COMPUTE}: is not a field path; write field names joined by dots, such as customer.id",
    ),
    "twice": (
        computing(Reducer("x", "count"), Reducer("x", "collect")),
        f"{COMPUTE}: is written twice; keep one of them",
    ),
    "reserved": (
        computing(Reducer("key", "count")),
        "agents.a.aggregate.compute.key: is reserved in the result; give the computed field another name",
    ),
    "nobody's reduce": (computing(Reducer("x", "reduce", function="no.such:thing")), f"{COMPUTE}: no.such:thing: "),
    "count": (ruled(count=-5), "agents.a.aggregate.count: must be at least 1; write a number in that range"),
    "count of text": (
        ruled(count="5"),
        "agents.a.aggregate.count: must be a whole number; write a whole number, such as 100",
    ),
    "time": (
        ruled(since_first=-1.0),
        "agents.a.aggregate.timeout.first: is out of range; write more than 0 and at most 3650d",
    ),
    "nan": (
        ruled(since_last=float("nan")),
        "agents.a.aggregate.timeout.last: is out of range; write more than 0 and at most 3650d",
    ),
    "text of time": (
        ruled(since_last="30s"),
        "agents.a.aggregate.timeout.last: is not a duration; write the number of seconds, such as 30.0",
    ),
    "size": (
        ruled(max_bytes=1.5),
        "agents.a.aggregate.max_bytes: is not a size; write the whole number of bytes, such as 4_194_304",
    ),
    "word": (
        ruled(on_full="explode"),
        "agents.a.aggregate.on_full: must be fire-oldest, dead-letter or stop; write one of these words",
    ),
    "until": (
        ruled(until=5),
        "agents.a.aggregation.until: must be a value of Until; build it with sluicegate.streams.agent.Until(...)",
    ),
    "equals": (
        ruled(until=Until("a", [1])),
        "agents.a.aggregate.until.equals: must be one value; write text, a number, true, false or null",
    ),
    "one topic": (having(topics="in"), "agents.a.topics: must be a tuple; write (ITEM,): the comma makes the tuple"),
    "no topic": (
        having(topics=()),
        "agents.a.from: names no topic; write a topic, a list of topics, or {topic: NAME, dedupe: sluicegate}",
    ),
    "topic": (
        having(topics=("a b",)),
        "agents.a.from[0].topic: is not a topic name; use only letters, digits and . _ - (at most 249)",
    ),
    "circle": (
        having(topics=("out",)),
        "agents.a.to.topic: is a topic that this agent reads: it would read its own results; write to another topic",
    ),
    "to": (
        having(to="out"),
        "agents.a.to: must be a value of Destination; build it with sluicegate.streams.agent.Destination(...)",
    ),
    "format": (
        having(format="jason"),
        "agents.a.format: is not a format; write json, avro, protobuf, json-schema, raw or module:codec",
    ),
    "start": (
        having(start="now"),
        "agents.a.start: is not a start; write 'earliest', 'latest' or the seconds since 1970 as a number",
    ),
    "name": (having(name="a b"), "agents.a b: is not a name; use only letters, digits and . _ - (at most 100)"),
    "own name": (
        having(name="dispatcher"),
        "agents.dispatcher: is the name of the process that sends the outbox's rows; give the agent another name",
    ),
    "nothing to do": (
        having(aggregation=None, to=None),
        "agents.a: does nothing: it has no aggregate, no handler and no to; write to: {topic: NAME} to forward each "
        "record, or add an aggregate or a handler",
    ),
    "envelope": (
        having(to=Destination("totals", envelope=EventEnvelope("binry", "shop.total"))),
        "agents.a.to.envelope.cloudevents: must be binary or structured; write one of these words",
    ),
    "headers of dead letters": (
        having(dead_headers="conect"),
        "agents.a.dead_letters.headers: must be sluicegate or connect; write one of these words",
    ),
    "scope": (
        having(scope="shared"),
        "agents.a.scope: needs the outbox: its results are sent from there; leave out outbox: false",
    ),
    "id": (
        having(dedupe=Deduplication(by="heder", name="id")),
        "agents.a.dedupe.id.heder: unknown key; did you mean header?",
    ),
    "schema": (
        having(schema=Avro(SCHEMA)),
        "agents.a.schema: belongs to format: avro, but the format is json; write format: avro, or leave it out",
    ),
    "rekeys": (having(rekeys="b"), "agents.a.rekeys: names no agent; leave it out"),
    "on_error": (
        having(on_error=OnError(decode="skipp")),
        "agents.a.on_error.decode: must be dead-letter, skip, stop or wait; write one of these words",
    ),
    "limit": (
        having(on_error=OnError(stop_above="5 %")),
        "agents.a.on_error.stop_above: is not a limit; "
        "write a share below 100% or a whole number, and a time, such as 5% of 1m",
    ),
    "time of a limit": (
        having(on_error=OnError(stop_above="100 of 20ms")),
        "agents.a.on_error.stop_above: has a time that is out of range; "
        "write at least 1s and at most 24h, such as 5% of 1m",
    ),
    "function": (
        calling(functions=(a_function,)),
        "agents.a.handler[0]: is a function itself, but worker processes import functions "
        "by their names; write 'tests.unit.config.test_values:a_function'",
    ),
    "local function": (
        calling(functions=(lambda message: None,)),
        "agents.a.handler[0]: is a function itself, but worker processes "
        "import functions by their names; put the function into a module of its own and write 'module:function'",
    ),
    "one function": (
        calling(functions="operator:neg"),
        "agents.a.handler.functions: must be a tuple; write (ITEM,): the comma makes the tuple",
    ),
    "back-off": (
        calling(backoff_first=5.0, backoff_most=1.0),
        "agents.a.retry.backoff: is not a span of durations; "
        "write the shortest and the longest as numbers of seconds, such as 1.0 and 60.0",
    ),
    "attempts": (calling(attempts=0), "agents.a.retry.attempts: must be at least 1; write a number in that range"),
    "slow session": (
        calling(session=True, concurrency=2),
        "agents.a.session: needs concurrency 0: a slow handler would hold the "
        "store's transaction open; leave one of them out",
    ),
    "agents": (replace(APP, agents=(GROUPS, GROUPS)), "agents.a: is written twice; keep one of them"),
    "no agent": (replace(APP, agents=()), "agents: there is no agent; write at least one agent under `agents`"),
}
OF_SYSTEMS = {
    "setting": (
        replace(APP, kafka={"bootstrap.servers": "localhost:9092", "acks": 1}),
        "kafka.acks: cannot be set: the relay sends in "
        "order, without loss, whatever the broker does; leave it out: Sluicegate sets it",
    ),
    "no broker": (
        replace(APP, kafka={}),
        "kafka.bootstrap.servers: is missing; write host:9092, or embedded for the embedded broker",
    ),
    "far broker": (
        replace(APP, kafka={"bootstrap.servers": "10.1.2.3:9092"}),
        "kafka.bootstrap.servers: is on another machine and "
        "would be reached without TLS; write security.protocol: SSL or SASL_SSL, or allow_plaintext: true where no "
        "other user is on the network",
    ),
    "store": (
        replace(APP, store="sqlite://state.db"),
        "store: names no SQLite file; write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path",
    ),
    "port": (replace(APP, http=Http(port=70000)), "http.port: must be at most 65535; write a number in that range"),
    "lease": (
        replace(APP, outbox=Outbox(lease=0.5)),
        "outbox.lease: is below 1 s: a lane would be lost while its rows are under way; "
        "write 30s, or another time that a process may stand still",
    ),
    "batch": (
        replace(APP, timeouts=Timeouts(batch=0)),
        "timeouts.batch: must be at least 1; write a number in that range",
    ),
}


@pytest.mark.parametrize(("app", "text"), [*WRONG.values(), *OF_SYSTEMS.values()], ids=[*WRONG, *OF_SYSTEMS])
def test_what_the_file_refuses_is_refused_in_python(app: App, text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        values.check(app)
    assert text in str(error.value).splitlines() or (text.endswith(" ") and str(error.value).startswith(text))


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError) as error:
        values.check(replace(APP, agents=(*ruled(count=0, on_null="no").agents, replace(GROUPS, name="a b"))))
    keys = [line.partition(":")[0] for line in str(error.value).splitlines()]
    assert keys == ["agents.a.aggregate.count", "agents.a.aggregate.on_null", "agents.a b"]


def test_a_run_is_refused_before_anything_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    def prepare(*_: object) -> None:
        pytest.fail("it asked its systems")

    assert supervisor.run(computing(Reducer("x", "summ", "amount")), prepare=prepare) == 2
    assert "is not a reducer; did you mean sum?" in capfd.readouterr().err


def test_without_the_check_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the test above."""
    monkeypatch.setattr(values, "check", lambda app: None)

    class Asked(Exception):
        pass

    def prepare(*_: object) -> None:
        raise Asked

    with pytest.raises(Asked):
        supervisor.run(computing(Reducer("x", "summ", "amount")), http=False, prepare=prepare)


@pytest.mark.parametrize(("app", "text"), WRONG.values(), ids=WRONG)
def test_the_test_driver_refuses_it_too(app: App, text: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        TestDriver(app)
    assert text in str(error.value)


def test_a_forwarder_in_avro_needs_a_schema() -> None:
    with pytest.raises(ConfigurationError, match="a record that is forwarded has none of its own; write schema"):
        TestDriver(having(aggregation=None, to=Destination("totals", "avro")))


@pytest.mark.parametrize("app", [app for app, _ in OF_SYSTEMS.values()], ids=OF_SYSTEMS)
def test_the_test_driver_uses_no_system(app: App) -> None:
    if app.outbox is None and app.timeouts is None:
        TestDriver(app).close()


FILES = {
    "good": GOOD,
    "everything": EVERYTHING.replace(', format: "json:loads"', ""),
    "repartition": agent(REPARTITION),
    "avro": agent(AVRO),
    "plaintext": GOOD.replace("localhost", "10.1.2.3") + "allow_plaintext: true\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_what_a_file_becomes_passes(tmp_path, text: str) -> None:
    (tmp_path / "order.avsc").write_text(SCHEMA)
    file = loaded(tmp_path, text, {"TOKEN": "0123456789abcdef"})
    assert file.app is not None, file.problems
    values.check(file.app)


@pytest.mark.parametrize("name", [name for name in FILES if name != "avro"])  # whose schema is a file
def test_every_value_is_in_the_tree_that_is_checked(tmp_path, name: str) -> None:
    app = loaded(tmp_path, FILES[name], {"TOKEN": "0123456789abcdef"}).app
    assert app is not None
    model, findings = loading._judge(FileDocument(tree=values._tree(app)), tmp_path, False)
    assert findings == []
    assert model is not None
    assert build.app(model, app.folder) == app


def test_what_is_left_to_its_defaults_passes() -> None:
    values.check(replace(APP, outbox=Outbox(degraded=Threshold(1.0, 2)), timeouts=Timeouts()))
    values.check(calling())
