"""The key `lookup`: what it is loaded into, what is wrong with it, and what it means in words."""

from dataclasses import replace

import pytest

from sluicegate.streams.agent import Agent, App, Destination, Lookup
from sluicegate.streams.config.checking import values
from sluicegate.streams.config.words import meaning
from sluicegate.streams.errors import ConfigurationError
from tests.unit.config.files import HEAD, agent, lines, loaded

FORWARDS = """
from: orders
lookup:
  customer: {%s}
to: {topic: out}
"""
ROW = "table: customers, column: id, key: customer_id, fields: [name, tier]"
SUMS = """
from: orders
aggregate: {count: 2, compute: {spent: {sum: amount}}}
lookup:
  customer: {%s}
to: {topic: out}
"""
OF_A_RESULT = "table: customers, column: id, key: key, fields: [name]"


def app_of(folder, text):
    file = loaded(folder, agent(text))
    assert file.problems == ()
    return file.app


def mistakes(folder, text):
    return lines(loaded(folder, text).problems, folder)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ROW, Lookup("customer", "table", "customers", "customer_id", ("name", "tier"), "id")),
        (ROW + ", missing: null", Lookup("customer", "table", "customers", "customer_id", ("name", "tier"), "id")),
        (
            "table: crm.customers, column: id, key: order.customer, fields: [name], missing: dead-letter, lock: share",
            Lookup("customer", "table", "crm.customers", "order.customer", ("name",), "id", "dead-letter", lock=True),
        ),
        (
            ROW + ", missing: {wait: 30s}",
            Lookup("customer", "table", "customers", "customer_id", ("name", "tier"), "id", "wait", 30.0),
        ),
        (
            "topic: customers, key: customer_id, fields: [name], max_rows: 5, max_table_bytes: 1MiB",
            Lookup("customer", "topic", "customers", "customer_id", ("name",), max_rows=5, max_table_bytes=1 << 20),
        ),
    ],
)
def test_what_it_is_loaded_into(tmp_path, row, expected):
    app = app_of(tmp_path, FORWARDS % row)
    assert app.agents[0].lookups == (expected,)
    values.check(app)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FORWARDS % "column: id, key: customer_id, fields: [name]",
            [
                "f.yaml:9:7: agents.a.lookup.customer: does not say where the row is, or says it twice; write one of "
                "table: NAME, collection: NAME, hash: 'customer:{key}' and topic: NAME"
            ],
        ),
        (
            FORWARDS % "table: 'customers; drop', key: customer_id, fields: [name, 'tier\"']",
            [
                "f.yaml:9:7: agents.a.lookup.customer.column: is missing; write the column that is compared with "
                "`key`, "
                "such as column: id",
                "f.yaml:9:18: agents.a.lookup.customer.table: is not the name of a table; write TABLE, or SCHEMA.TABLE",
                'f.yaml:9:62: agents.a.lookup.customer.fields: has tier", which is not the name of a column; '
                "correct it",
            ],
        ),
        (
            FORWARDS % (ROW + ", missing: 30s, cache: 5m"),
            [
                "f.yaml:9:88: agents.a.lookup.customer.missing: is not a rule for a row that is missing; write null, "
                "dead-letter, or {wait: 30s}",
                "f.yaml:9:102: agents.a.lookup.customer.cache: unknown key; known here: table, collection, hash, "
                "topic, column, key, fields, missing, lock, max_rows, max_table_bytes",
            ],
        ),
        (
            FORWARDS % "table: customers, column: id, key: 'customer_id ==', fields: []",
            [
                "f.yaml:9:68: agents.a.lookup.customer.key: ends too early; expected a value",
                "f.yaml:9:71: agents.a.lookup.customer.fields: names no field of the row; write the fields that it "
                "adds, "
                "such as [name, tier]",
            ],
        ),
        (
            FORWARDS % "collection: customers, column: _id, key: customer_id, fields: [name], lock: share",
            [
                "f.yaml:9:18: agents.a.lookup.customer.collection: is of MongoDB, but the store is sqlite; write "
                "table: "
                "NAME",
                "f.yaml:9:88: agents.a.lookup.customer.lock: is for tables; leave it out: the transaction of the store "
                "has its own promise",
            ],
        ),
        (
            FORWARDS % "hash: customers, column: id, key: customer_id, fields: [name]",
            [
                "f.yaml:9:18: agents.a.lookup.customer.hash: does not say where the key stands; write {key} once in "
                "it, "
                "as in hash: 'customer:{key}'",
                "f.yaml:9:18: agents.a.lookup.customer.hash: is of Redis without cluster, but the store is sqlite; "
                "write "
                "table: NAME",
                "f.yaml:9:35: agents.a.lookup.customer.column: does not apply to a hash: its name has the key; leave "
                "it out",
            ],
        ),
        (
            FORWARDS % "topic: customers, column: id, key: customer_id, fields: [name], lock: share",
            [
                "f.yaml:9:36: agents.a.lookup.customer.column: is not for a topic, whose records have keys; leave it "
                "out",
                "f.yaml:9:82: agents.a.lookup.customer.lock: is for tables; leave it out: the transaction of the store "
                "has its own promise",
            ],
        ),
        (
            FORWARDS % (ROW + ", max_rows: 5"),
            ["f.yaml:9:88: agents.a.lookup.customer.max_rows: is for topics, which are kept in memory; leave it out"],
        ),
        (
            FORWARDS.replace("from: orders", "from: orders\nlet: {customer: n}\nwhere: customer.tier > 1") % ROW,
            [
                "f.yaml:9:5: agents.a.where: names the lookup customer, whose row is read only when the result is "
                "written; use it under to, or in having; to use it here, let another agent write the enriched records "
                "to a topic",
                "f.yaml:11:7: agents.a.lookup.customer: has the name of a computed field (let); give one of the two "
                "another name",
            ],
        ),
        (
            SUMS.replace("sum: amount", "sum: customer.tier").replace("from: orders", "from: orders\nkey: customer.id")
            % OF_A_RESULT,
            [
                "f.yaml:8:5: agents.a.key: names the lookup customer, whose row is read only when the result is "
                "written; use it under to, or in having; to use it here, let another agent write the enriched records "
                "to a topic",
                "f.yaml:9:37: agents.a.aggregate.compute.spent: names the lookup customer, whose row is read "
                "only when the result is written; use it under to, or in having; to use it here, let another agent "
                "write the enriched records to a topic",
            ],
        ),
        (
            SUMS % "table: customers, column: id, key: spend, fields: [name], missing: {wait: 1s}",
            [
                "f.yaml:10:48: agents.a.lookup.customer.key: names spend, which is not a field of the result; did you "
                "mean "
                "spent?"
            ],
        ),
        (
            FORWARDS.replace("customer:", "message:") % ROW,
            [
                "f.yaml:9:7: agents.a.lookup.message: is not a name that an expression can write; use letters, digits "
                "and _, beginning with a letter, and no word of the language"
            ],
        ),
        (
            SUMS.replace("from: orders", "from: orders\nscope: shared") % f"{OF_A_RESULT}, lock: share",
            [
                "f.yaml:11:74: agents.a.lookup.customer.lock: has no meaning with scope: shared: a batch is completed "
                "after the transaction that read the row; leave one of the two out"
            ],
        ),
        (
            FORWARDS.replace("to:", "handler: operator:not_\nconcurrency: 2\nto:") % f"{ROW}, lock: share",
            [
                "f.yaml:9:88: agents.a.lookup.customer.lock: has no meaning with concurrency: the call runs after the "
                "transaction that read the row; leave one of the two out"
            ],
        ),
        (
            FORWARDS.replace("from: orders", "from: orders\nformat: raw") % ROW,
            [
                "f.yaml:9:5: agents.a.lookup: needs fields, but raw records have none; leave out lookup, or change "
                "format"
            ],
        ),
    ],
)
def test_mistakes(tmp_path, text, expected):
    assert mistakes(tmp_path, agent(text)) == expected


def test_a_redis_cluster_is_refused(tmp_path):
    text = agent(FORWARDS % "hash: 'c:{key}', key: customer_id, fields: [name]")
    cluster = text.replace("sqlite:///state.db", "redis+cluster://localhost:7000").replace(
        HEAD, HEAD + "allow_plaintext: true\n"
    )
    assert mistakes(tmp_path, cluster) == [
        "f.yaml:9:18: agents.a.lookup.customer.hash: is of Redis without cluster, but the store is redis+cluster; a "
        "Redis "
        "cluster has no lookups: its rows lie on other servers"
    ]


def test_expressions_of_outputs_may_name_the_row(tmp_path):
    row = FORWARDS.replace("from: orders", "from: orders\nfields: {customer_id: text, id: number}") % ROW
    good = row.replace("to: {topic: out}", "to: {topic: out, select: {id: id, tier: customer.tier}}")
    assert loaded(tmp_path, agent(good)).problems == ()
    wrong = row.replace("to: {topic: out}", "to: {topic: out, select: {id: id, tier: customer.teir}}")
    assert mistakes(tmp_path, agent(wrong)) == [
        "f.yaml:11:54: agents.a.to.select.tier: no field teir in customer; did you mean tier?"
    ]


def test_expressions_of_results_may_name_the_row(tmp_path):
    good = (SUMS % OF_A_RESULT).replace("to:", "having: customer.name != null\nto:")
    assert loaded(tmp_path, agent(good)).problems == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            FORWARDS % (ROW + ", missing: dead-letter"),
            "adds to each message customer (name, tier) of the row of customers whose id is its customer_id, read in "
            "the "
            "transaction of the commit; without one it is a dead letter",
        ),
        (
            FORWARDS % (ROW + ", missing: {wait: 30s}, lock: share"),
            "adds to each message customer (name, tier) of the row of customers whose id is its customer_id, read in "
            "the "
            "transaction of the commit, until which the row cannot change; without one the partition waits for it up "
            "to "
            "30 s, then it is a dead letter",
        ),
        (
            SUMS % OF_A_RESULT,
            "adds to each result customer (name) of the row of customers whose id is its key, read in the "
            "transaction of "
            "the commit; without one customer is null",
        ),
    ],
)
def test_it_is_said_in_words(tmp_path, text, expected):
    app = app_of(tmp_path, text)
    assert expected in meaning(app.agents[0])


def test_values_built_in_python_are_checked_as_a_file():
    lookup = Lookup("customer", "hash", "c:{key}", "customer_id", ("name",))
    made = Agent("a", ("in",), None, Destination("out"), "dead", lookups=(lookup,))
    app = App("shop", "memory://", (made,), kafka={"bootstrap.servers": "localhost:9092"})
    values.check(app)
    wrong = replace(app, agents=(replace(made, lookups=(replace(lookup, source="c"), lookup)),))
    with pytest.raises(ConfigurationError, match=r"is written twice"):
        values.check(wrong)
