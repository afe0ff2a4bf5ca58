"""A key that one entry adds works in `check`, the schema of the file, the reference, the keywords of Python, the values
that run, the document of the rule, its digest and `plan`."""

import json

import pytest

from sluicegate.streams.config import load
from sluicegate.streams.rules.identity import rule_of
from tests.unit.one_place.copy import Copy

AGENTS, GROUPS = "streams/agent/agent.py", "streams/agent/groups.py"
GROUP = """\
    max_open: Annotated[int | None, FileKey("The most open groups of a key.", 4, END, most=9)] = None


"""
AGENT = """\
    patience: Annotated[float, FileKey("How long the agent is patient.", "30s", TAKEN)] = 60.0


"""
APP = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
http: false
dead_letters: dead
agents:
  orders:
    from: in
    patience: 2m
    aggregate:
      count: 3
      timeout: 1m
      max_open: 7
    to: {topic: out}
"""
PLAIN = APP.replace("    patience: 2m\n", "").replace("      max_open: 7\n", "")
PYTHON = """
import json

from sluicegate import App
from sluicegate.streams.config import load
from sluicegate.streams.rules.document import document
from sluicegate.streams.rules.identity import rule_of
from tests.keywords import generated

[found] = load("shop.yaml", {}).app.agents
print(generated())
rule = document(found)
agents = [load(name, {}).app.agents[0] for name in ("shop.yaml", "plain.yaml")]
values = [found.patience, found.aggregation.max_open, rule["patience"], rule["aggregate"]["max_open"]]
print(json.dumps([*values, *(rule_of(each).digest for each in agents)]))
"""
VALUES = """
from dataclasses import replace

from sluicegate.streams.config import load
from sluicegate.streams.config.checking import values

app = load("shop.yaml", {}).app
values.check(app)
try:
    values.check(replace(app, agents=(replace(app.agents[0], patience="long"),)))
except Exception as error:
    print(error)
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("product"))
    copy.put(
        GROUPS, "@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)\nclass EmitSettings", GROUP
    )
    copy.put(AGENTS, "@dataclass(frozen=True, slots=True)\nclass Agent(", AGENT)
    copy.write("shop.yaml", APP)
    copy.write("plain.yaml", PLAIN)
    return copy


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (
            "max_open",
            "max_opne",
            "wrong.yaml:14:7: agents.orders.aggregate.max_opne: unknown key; did you mean max_open?",
        ),
        (": 7", ": many", "wrong.yaml:14:7: agents.orders.aggregate.max_open: must be a whole number"),
        (": 7", ": 10", "wrong.yaml:14:7: agents.orders.aggregate.max_open: must be at most 9"),
        (
            ": 2m",
            ": long",
            "wrong.yaml:10:5: agents.orders.patience: is not a duration; write one number and ms, s, m, h",
        ),
    ],
)
def test_check_names_it(product: Copy, before: str, after: str, problem: str) -> None:
    product.write("wrong.yaml", APP.replace(before, after))
    assert problem in product.command("check", "wrong.yaml", code=2)


def test_the_schema_of_the_file_has_it_in_its_place(product: Copy) -> None:
    keys = json.loads(product.command("schema"))["$defs"]["Aggregate"]["properties"]
    assert keys["max_open"]["description"] == "The most open groups of a key."
    assert [*keys][-3:] == ["max_buffered_bytes", "max_open", "window"]


def test_the_reference_has_it(product: Copy) -> None:
    assert "How long the agent is patient." in product.command("docs", "patience")


def test_python_has_it_and_the_rule_changes_with_it(product: Copy) -> None:
    *keywords, values = product.program(PYTHON).splitlines()
    *document, digest, plain = json.loads(values)
    assert document == [120.0, 7, 120, 7]
    assert digest != plain
    assert "    max_open: int | None" in keywords
    assert "    patience: FileDuration" in keywords


def test_a_rule_without_it_keeps_its_digest(product: Copy) -> None:
    app = load(product.folder / "plain.yaml", {}).app
    assert app is not None
    assert rule_of(app.agents[0]).digest == json.loads(product.program(PYTHON).splitlines()[-1])[-1]


def test_a_value_that_is_built_in_python_is_checked(product: Copy) -> None:
    assert "agents.orders.patience: is not a duration; write the number of seconds" in product.program(VALUES)


@pytest.mark.parametrize(
    ("before", "after", "path", "kind"),
    [
        ("max_open: 7", "max_open: 8", "aggregate.max_open 7 -> 8", "class: end of a group"),
        ("patience: 2m", "patience: 3m", "patience 120 -> 180", "class: which records count"),
    ],
)
def test_a_changed_key_is_a_change_of_its_class(product: Copy, before: str, after: str, path: str, kind: str) -> None:
    product.write("after.yaml", APP.replace(before, after))
    planned = product.command("plan", "after.yaml", "--against", "shop.yaml", "--no-replay")
    assert path in planned
    assert kind in planned
