"""Several clusters in the file: their names, their settings, and what the topics of an agent may be."""

from pathlib import Path

import msgspec
import pytest

from sluicegate.streams.agent import App
from sluicegate.streams.config.checking import values
from sluicegate.streams.handlers.sending import HandlerOutputs
from sluicegate.streams.keys import TOPICS
from sluicegate.streams.rules.changes import changes
from sluicegate.streams.rules.document import document
from tests.unit.config.files import lines, loaded
from tests.unit.testing.files import crashed, played

HEAD = """\
app: shop
kafka:
  default: east
  east: {bootstrap.servers: "localhost:9092", linger.ms: 5}
  west: {bootstrap.servers: "localhost:9093"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
"""
BRIDGE = "  a: {from: %s, to: %s}\n"


def app_of(folder: Path, agents: str, head: str = HEAD) -> App:
    file = loaded(folder, head + agents)
    assert lines(file.problems, folder) == []
    assert file.app is not None
    return file.app


def problems(folder: Path, agents: str, head: str = HEAD) -> list[str]:
    return lines(loaded(folder, head + agents).problems, folder)


def test_each_cluster_has_its_settings(tmp_path: Path) -> None:
    app = app_of(tmp_path, BRIDGE % ("orders", "{cluster: west, topic: orders}"))
    assert (app.cluster, app.kafka["linger.ms"]) == ("east", 5)
    assert app.clusters == {"west": {"bootstrap.servers": "localhost:9093"}}
    assert app.brokers.names == ("", "west")
    assert dict(app.brokers.of("west")) == {"bootstrap.servers": "localhost:9093"}
    assert [app.brokers.of(name).name for name in app.brokers.names] == ["east", "west"]


def test_a_topic_of_the_default_cluster_has_its_plain_name_however_it_is_written(tmp_path: Path) -> None:
    forms = "orders", "orders@east", "{cluster: east, topic: orders}", "[{cluster: east, topic: orders}]"
    assert {app_of(tmp_path, BRIDGE % (form, "o")).agents[0].topics for form in forms} == {("orders",)}
    forms = "orders@west", "{cluster: west, topic: orders}", "[{topic: orders, cluster: west}]"
    assert {app_of(tmp_path, BRIDGE % (form, "o")).agents[0].topics for form in forms} == {("orders@west",)}


def test_a_pattern_may_have_a_cluster(tmp_path: Path) -> None:
    agent = app_of(tmp_path, BRIDGE % ("{cluster: west, pattern: 'orders.*'}", "o")).agents[0]
    assert agent.topics == ("^orders.*@west",)


def test_an_app_of_two_clusters_is_the_same_after_its_way_to_a_worker_and_as_values(tmp_path: Path) -> None:
    app = app_of(tmp_path, BRIDGE % ("orders@west", "o"))
    assert msgspec.json.decode(msgspec.json.encode(app), type=App) == app
    values.check(app)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{east: {bootstrap.servers: 'a:1'}, west: {bootstrap.servers: 'b:1'}}", "does not say which cluster is meant"),
        ("{default: nort, east: {bootstrap.servers: 'a:1'}, north: {bootstrap.servers: 'b:1'}}", "did you mean north?"),
        ("{default: east, east: {linger.ms: 1}}", "kafka.east.bootstrap.servers: is missing"),
        ("{default: east, east: {bootstrap.servers: 'localhost:1', acks: 1}}", "kafka.east.acks: cannot be set"),
        ("{linger.ms: 1, east: {bootstrap.servers: 'localhost:1'}}", "is not a cluster, and kafka names clusters here"),
        ("{e@st: {bootstrap.servers: 'localhost:1'}}", "is not the name of a cluster"),
        ("{default: east, east: {bootstrap.servers: 'far:1'}}", "kafka.east.bootstrap.servers: is on another machine"),
    ],
)
def test_what_is_wrong_with_the_names_and_with_the_settings_of_each(tmp_path: Path, section: str, problem: str) -> None:
    head = f"app: shop\nkafka: {section}\nstore: sqlite:///state.db\nagents:\n"
    assert problem in "\n".join(problems(tmp_path, BRIDGE % ("orders", "o"), head))


def test_one_cluster_may_have_a_name_and_is_the_default_one(tmp_path: Path) -> None:
    head = "app: shop\nkafka: {east: {bootstrap.servers: 'localhost:1'}}\nstore: sqlite:///state.db\nagents:\n"
    app = app_of(tmp_path, BRIDGE % ("orders@east", "o"), head)
    assert (app.cluster, app.clusters, app.agents[0].topics) == ("east", {}, ("orders",))


def test_a_cluster_that_kafka_does_not_have_is_refused_at_each_topic(tmp_path: Path) -> None:
    complaints = problems(tmp_path, BRIDGE % ("orders@wets", "{cluster: north, topic: o}"))
    assert any("agents.a.from" in line and "did you mean west?" in line for line in complaints)
    assert any(
        "agents.a.to" in line and "names the cluster north, which kafka does not have" in line for line in complaints
    )
    flat = "app: shop\nkafka: {bootstrap.servers: 'localhost:1'}\nstore: sqlite:///state.db\nagents:\n"
    assert "names the cluster west" in "\n".join(problems(tmp_path, BRIDGE % ("orders@west", "o"), flat))


def test_an_agent_reads_topics_of_one_cluster(tmp_path: Path) -> None:
    complaints = problems(tmp_path, BRIDGE % ("[orders, orders@west]", "o"))
    assert len(complaints) == 1
    assert "agents.a.from: names topics of two clusters" in complaints[0]
    assert "forward one to a topic of the other cluster first" in complaints[0]


def test_the_legs_of_a_correlation_may_have_a_cluster_each(tmp_path: Path) -> None:
    legs = "{orders: {from: orders, key: id}, payments: {from: payments@west, key: id}}"
    app = app_of(tmp_path, f"  a:\n    correlate: {{legs: {legs}, timeout: {{after: 1m, since: first}}}}\n    to: o\n")
    assert {agent.topics for agent in app.agents if agent.leg} == {("orders",), ("payments@west",)}


@pytest.mark.parametrize(
    ("source", "to", "more"),
    [
        ("orders", "o@west", ""),
        ("orders@west", "o", ""),
        ("orders@west", "o@west", ""),  # its dead letters go to the default cluster
        ("orders", "o", ", dead_letters: d@west"),
    ],
)
def test_transactions_across_clusters_are_refused_with_the_reason(
    tmp_path: Path, source: str, to: str, more: str
) -> None:
    agent = f"  a: {{from: {source}, to: {to}, delivery: transactional{more}}}\n"
    [problem] = problems(tmp_path, agent)
    assert "agents.a.delivery: needs everything that the agent reads and writes in one cluster" in problem


def test_transactions_within_another_cluster_than_the_default_one(tmp_path: Path) -> None:
    app_of(tmp_path, "  a: {from: t@west, to: o@west, delivery: transactional, dead_letters: d@west}\n")


def test_rows_without_an_order_are_of_one_cluster(tmp_path: Path) -> None:
    head = HEAD.replace("store:", "outbox: {order: none}\nstore:")
    assert "outbox.order: is for one cluster" in "\n".join(problems(tmp_path, BRIDGE % ("orders", "o"), head))


def test_the_topic_of_the_same_name_in_another_cluster_is_another_input(tmp_path: Path) -> None:
    before = app_of(tmp_path, BRIDGE % ("orders", "o")).agents[0]
    after = app_of(tmp_path, BRIDGE % ("orders@west", "o")).agents[0]
    differences = changes(document(before), document(after))
    assert [(change.old, change.new, change.kind) for change in differences if change.kind == TOPICS] == [
        ("orders", None, TOPICS),
        (None, "orders@west", TOPICS),
    ]


def test_a_handler_sends_to_the_clusters_of_the_file(tmp_path: Path) -> None:
    app = app_of(tmp_path, BRIDGE % ("orders", "o"))
    outputs = HandlerOutputs(app.agents[0], app.brokers)
    assert outputs.to_topic("x@west", 1).topic == "x@west"
    assert outputs.to_topic("x@east", 1).topic == "x"
    with pytest.raises(ValueError, match="kafka has no cluster north"):
        outputs.to_topic("x@north", 1)


def test_a_handler_with_transactions_sends_to_the_cluster_of_its_input(tmp_path: Path) -> None:
    app = app_of(tmp_path, "  a: {from: t@west, to: o@west, delivery: transactional, dead_letters: d@west}\n")
    outputs = HandlerOutputs(app.agents[0], app.brokers)
    assert outputs.to_topic("x@west", 1).topic == "x@west"
    with pytest.raises(ValueError, match="to the cluster of the agent's input only"):
        outputs.to_topic("x", 1)


CASE = """\
  a: {from: orders, to: orders@west}
  b: {from: orders@west, to: back}
tests:
  it:
"""
STEPS = """\
- send: {topic: orders, key: k, value: {n: 1}}
- expect: {topic: orders, cluster: CLUSTER, key: k, value: {n: 1}}
- expect: {topic: back, key: k, value: {n: 1}}
- send: {topic: orders, cluster: west, key: k, value: {n: 2}}
- expect: {topic: back, key: k, value: {n: 2}}
"""


def test_a_test_of_the_file_tells_topics_of_one_name_apart(tmp_path: Path) -> None:
    assert played(tmp_path, STEPS.replace("CLUSTER", "west"), HEAD + CASE) is None
    assert crashed(tmp_path, STEPS.replace("CLUSTER", "west"), HEAD + CASE).failure is None
    with pytest.raises(AssertionError, match="is a topic that no agent writes"):
        played(tmp_path, STEPS.replace("CLUSTER", "east"), HEAD + CASE)
