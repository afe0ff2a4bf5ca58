"""What a file means, and what is unsafe about it, in words."""

import pytest

from sluicegate.streams.agent import Aggregation, Until
from sluicegate.streams.config import meaning
from sluicegate.streams.config.words import delivering, dispatching, firing
from sluicegate.streams.units import spoken_duration
from tests.unit.config.files import GOOD, agent, lines, loaded

CLOCK = ", by the worker's clock, even if no record follows; a later record of the key starts a new group"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            Aggregation(count=100, since_first=30.0),
            f"fires at exactly 100 records of one key, or 30 s after the first record{CLOCK}",
        ),
        (Aggregation(count=1), "fires at exactly 1 record of one key"),
        (Aggregation(since_last=0.25), f"fires 250 ms after the last record{CLOCK}"),
        (
            Aggregation(since_first=3600.0, since_last=90.0),
            f"fires 1 h after the first record, or 90 s after the last record{CLOCK}",
        ),
        (
            Aggregation(count=3, until=Until("a.b", "x")),
            'fires at exactly 3 records of one key, or with the record whose a.b equals "x"',
        ),
        (Aggregation(), "ends a group only at a limit: 100000 records of one key, or 900000 collected bytes"),
    ],
)
def test_a_rule_is_said_in_words(rule, expected):
    assert firing(rule) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.5, "500 ms"),
        (1, "1 s"),
        (90, "90 s"),
        (120, "2 min"),
        (5400, "90 min"),
        (3930, "1 h 5 min 30 s"),
        (1000.5, "16 min 40.5 s"),
        (86400, "1 d"),
    ],
)
def test_a_duration_is_said_in_its_largest_whole_unit(seconds, expected):
    assert spoken_duration(seconds) == expected


def test_an_agent_is_said_in_words(tmp_path):
    text = agent("""
        from: [x, {topic: y, dedupe: sluicegate}]
        key: user.id
        aggregate:
          count: 7
          timeout: {after: 5s}
          on_timeout: discard
          compute: {n: count, most: {max: price}, all: collect, own: {reduce: "operator:add"}}
        dedupe: {id: header:message-id, horizon: 90m}
        to: {topic: o}
        """)
    assert meaning(loaded(tmp_path, text).app.agents[0]) == [
        "reads x and y as json, one group per value of user.id and partition",
        f"fires at exactly 7 records of one key, or 5 s after the first record{CLOCK}",
        "a group that times out is discarded",
        "writes n (how many records); most (the greatest price); all (the whole messages, in order); own (computed "
        "by operator:add) to o as json",
        "drops repeats of what Sluicegate agents write to y",
        "drops a record whose header message-id was accepted in the same partition up to 90 min before (1000000 ids "
        "are remembered, then the oldest are forgotten); a record without one is a dead letter",
        "sends records that it cannot use to shop.dead, byte for byte",
    ]


WARNINGS = [
    (GOOD, []),
    (
        GOOD.replace("sqlite:///state.db", "memory://"),
        [
            "f.yaml:3:1: store: is not durable: everything is lost when the process ends; "
            "use sqlite:///file.db or a server to keep state over a restart"
        ],
    ),
    (
        agent("from: a\nkey: b\naggregate: {count: 1}\nto: {topic: o}"),
        [
            "f.yaml:8:5: agents.a.key: is not the message key: groups are exact only if all records of one value are "
            "in one partition; "
            "key the topic by this field where it is written"
        ],
    ),
    (
        agent("from: [a, b]\naggregate: {count: 1}\nto: {topic: o}"),
        [
            "f.yaml:7:5: agents.a.from: has several topics: groups never span topics (nor partitions); "
            "write into one topic first if one group must hold records of both"
        ],
    ),
    (
        agent("from: [a, b]\naggregate: {count: 1}\ndedupe: {id: key}\nto: {topic: o}"),
        [
            "f.yaml:7:5: agents.a.from: has several topics: groups never span topics (nor partitions); "
            "write into one topic first if one group must hold records of both",
            "f.yaml:9:5: agents.a.dedupe: finds no duplicate in another topic (nor partition); "
            "write each message and its duplicates into one topic, with one key",
            "f.yaml:9:14: agents.a.dedupe.id: is also the key of the groups: a group gets one record; name what "
            "differs between messages",
        ],
    ),
    (agent("from: a\nhandler: builtins:len\ndedupe: {id: key}"), []),
    (
        agent("from: a\naggregate: {count: 1, timeout: {after: 1s}}\nto: {topic: o}").replace(
            "dead_letters: shop.dead\n", ""
        ),
        [
            "f.yaml:7:27: agents.a.aggregate.timeout: there is a timeout and no dead-letter topic is set: shop.dead "
            "is used; "
            "set dead_letters, in the agent or at the top"
        ],
    ),
    (agent("from: a\naggregate: {timeout: {after: 1s}}\nto: {topic: o}"), []),
    (
        agent("from: a\naggregate: {count: 1}\nto: {topic: o}\non_error: {decode: skip}"),
        [
            "f.yaml:10:16: agents.a.on_error.decode: loses records that cannot be decoded: they are only counted; let "
            "it be dead-letter to keep it"
        ],
    ),
    (
        agent("from: a\naggregate: {}\nto: {topic: o}"),
        [
            "f.yaml:8:5: agents.a.aggregate: has no count, no timeout and no until; add one, else groups end only at "
            "a limit"
        ],
    ),
    (
        agent("from: a\naggregate: {until: {field: x, equals: 1}}\nto: {topic: o}"),
        ["f.yaml:8:5: agents.a.aggregate: has no timeout: a group whose end never comes stays open; add a timeout"],
    ),
    (
        GOOD + "  b: {from: totals, aggregate: {count: 2}, to: {topic: orders}}\n",
        [
            "f.yaml:9:10: agents.a.to.topic: comes back to this agent through b; make sure that the circle ends",
            "f.yaml:10:49: agents.b.to.topic: comes back to this agent through a; make sure that the circle ends",
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), WARNINGS)
def test_what_is_unsafe_is_warned_of(tmp_path, text, expected):
    file = loaded(tmp_path, text)
    assert file.problems == ()
    assert lines(file.warnings, tmp_path) == expected


@pytest.mark.parametrize(
    ("decode", "produce", "expected"),
    [
        ("dead-letter", "dead", ["sends records that it cannot use to shop.dead, byte for byte"]),
        (
            "skip",
            "dead",
            [
                "leaves out, and counts, records that cannot be decoded",
                "sends other records that it cannot use to shop.dead, byte for byte",
            ],
        ),
        (
            "stop",
            "stop",
            [
                "stops the partition at a record that cannot be decoded",
                "stops the partition at an output that cannot be sent",
                "sends other records that it cannot use to shop.dead, byte for byte",
            ],
        ),
        (
            "wait",
            "dead",
            [
                "waits before a record that cannot be decoded, and tries it again",
                "sends other records that it cannot use to shop.dead, byte for byte",
            ],
        ),
    ],
)
def test_the_policy_for_errors_is_said_in_words(tmp_path, decode, produce, expected):
    text = f"from: a\naggregate: {{count: 1}}\nto: {{topic: o}}\non_error: {{decode: {decode}, produce: {produce}}}"
    built_agent = loaded(tmp_path, agent(text)).app.agents[0]
    assert (built_agent.on_error.decode, built_agent.on_error.produce) == (decode, produce)
    assert meaning(built_agent)[-len(expected) :] == expected


def test_the_search_for_bad_messages_is_said_in_words(tmp_path):
    text = agent("""
        from: a
        aggregate: {count: 10, compute: {rows: collect}}
        handler: builtins:len
        retry: {attempts: 5, isolate_after: 3}
        """)
    [built_agent] = loaded(tmp_path, text).app.agents
    assert built_agent.handler.isolate_after == 3
    alone = (
        "after 3 failures of a group its messages are tried alone; those that fail go to shop.dead, and the "
        "others are handled without them"
    )
    assert alone in meaning(built_agent)


def test_how_often_a_result_is_in_its_topic_is_said_once_for_the_file(tmp_path):
    text = delivering(loaded(tmp_path, GOOD).app)
    assert text.startswith("each result is in the store once, and is sent to Kafka at least once: after a crash ")
    assert "which a receiver drops by sluicegate-shard and sluicegate-seq" in text
    assert text.endswith("with `delivery: transactional` readers of committed records see each result once")
    both = f"{GOOD}  b:\n    delivery: transactional\n    from: more\n    to: {{topic: kept}}\n"
    assert delivering(loaded(tmp_path, both).app).startswith("each result of a is in the store once")
    alone = loaded(tmp_path, GOOD.replace("  a:\n", "  a:\n    delivery: transactional\n")).app
    assert delivering(alone) is None, "the sentence of the agent says it"
    shared = loaded(tmp_path, GOOD.replace("  a:\n", "  a:\n    scope: shared\n")).app
    assert "transactional" not in delivering(shared), "the dispatcher sends its results, in no transaction"


def test_what_is_sent_besides_is_said_in_words(tmp_path):
    assert dispatching(loaded(tmp_path, GOOD).app) == [], "the file uses nothing of it"
    assert dispatching(loaded(tmp_path, GOOD + "timeouts: {poll: 2s}\n").app) == [
        "sends the rows of the store's outbox, in their order for each key, by as many lanes as the store has; looks "
        "every 1 s where the store cannot tell",
        "tries a row 10 times, 1 s to 1 min apart, while its lane waits; then the row is dead "
        "(an outage of the brokers is not an attempt)",
        "leases a lane for 30 s and renews the lease; another process sends the rows of a process that died after that",
        "deletes rows 1 h after they were sent",
        "is degraded when a row is 1 min old or 1 is dead, and not ready when a row is 10 min old or 1000 are dead",
        "sends timeouts when they are due by the store's clock, never before, 500 at a time; those of a process "
        "that died are sent 5 min later",
    ]
    loose = loaded(tmp_path, GOOD + "outbox: {order: none}\ntimeouts: false\n").app
    assert dispatching(loose)[0].startswith("sends the rows of the store's outbox, in any order;")
    assert len(dispatching(loose)) == 5
    [alone] = dispatching(loaded(tmp_path, GOOD + "outbox: false\ntimeouts: {poll: 2s}\n").app)
    assert alone.startswith("adds timeouts to the outbox, which another process must send, when they are due by ")
    assert dispatching(loaded(tmp_path, GOOD + "outbox: false\ntimeouts: false\n").app) == []
