"""App in code: its keywords are the keys of a file, its public names are typed and documented, its mistakes name the
line of code."""

import ast
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

import sluicegate
from sluicegate import App, ConfigurationError, Message, Send
from sluicegate.streams.app import keys
from sluicegate.streams.cli.workers import early
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.sections.models_agent import AgentModel
from sluicegate.streams.config.sections.models_groups import Aggregate
from tests import keywords
from tests.house import DRIVERS

PROJECT = Path(__file__).resolve().parents[3]
KAFKA = {"bootstrap.servers": "localhost:9092"}


@pytest.fixture
def app() -> App:
    return App("shop", store="memory://", kafka=KAFKA)


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def agents(app: App) -> Any:
    return yaml.safe_load(app.to_yaml())["agents"]


def total(value: Any) -> None:
    """A function that worker processes can import."""


# -- one list of keys -----------------------------------------------------------------------------------


def test_the_keywords_are_generated_from_the_models() -> None:
    assert keywords.KEYS.read_text(encoding="utf-8") == keywords.generated(), "run `python -m tests.keywords`"


def test_a_key_that_a_model_has_and_the_keywords_lack_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = keywords.schema()
    whole["$defs"]["Aggregate"]["properties"]["pages"] = {"type": "integer", "description": "how many"}
    monkeypatch.setattr(keywords, "schema", lambda: whole)
    made = keywords.generated()
    assert made != keywords.KEYS.read_text(encoding="utf-8")
    assert ("\n    pages: int\n" in made, "- `pages` (int): how many\n" in made) == (True, True)


def test_a_key_at_two_levels_cannot_be_a_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = keywords.schema()
    whole["$defs"]["AgentModel"]["properties"]["count"] = {"type": "integer"}
    monkeypatch.setattr(keywords, "schema", lambda: whole)
    with pytest.raises(AssertionError, match="'count'"):
        keywords.generated()


def names(*models: Any) -> set[str]:
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


def test_help_describes_every_key() -> None:
    of_agent, of_app = pydoc.render_doc(sluicegate.Agent), pydoc.render_doc(sluicegate.App)
    for name in names(AgentModel, Aggregate) - {"aggregate", "handler", "from"} | {
        "from_",
        "name",
        "place",
        "function",
    }:
        assert f"- `{name}`" in of_agent
    for name in names(FileModel) - {"app", "agents"} | {"name"}:
        assert f"- `{name}`" in of_app


# -- the package ----------------------------------------------------------------------------------------


def test_every_public_name_is_there_for_type_checkers_and_documented() -> None:
    tree = ast.parse((PROJECT / "sluicegate" / "__init__.py").read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (alias.name, node.module) for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed == {*sluicegate._MODULES.items()}
    assert {*sluicegate.__all__} <= {*dir(sluicegate)}
    for name in sluicegate.__all__:
        assert inspect.getdoc(getattr(sluicegate, name)), name
    with pytest.raises(AttributeError, match="no attribute 'Ap'"):
        getattr(sluicegate, "Ap")  # noqa: B009


def loaded_by(code: str) -> set[str]:
    program = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {*done.stdout.split()}


def test_the_import_of_the_package_loads_nothing_and_an_app_no_driver_and_no_models() -> None:
    assert not {module for module in loaded_by("import sluicegate") if module.startswith("sluicegate.")}
    app = loaded_by(
        "from sluicegate import App\napp = App('shop', store='memory://', kafka={})\n"
        "@app.agent(from_='orders', to='out')\ndef handle(value: dict, send): ..."
    )
    assert not app & {*DRIVERS, "pydantic", "yaml", "sluicegate.streams.config"}


def test_python_m_sluicegate_is_the_command() -> None:
    command = [sys.executable, "-m", "sluicegate", "--help"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "check" in done.stdout, done.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("/bin/sluicegate", ["run", "shop.yaml"], True),
        ("/lib/sluicegate/__main__.py", ["run", "shop.yaml"], True),
        ("/lib/other/__main__.py", ["run", "shop.yaml"], False),
        ("/bin/sluicegate", ["check", "shop.yaml"], False),
        ("shop.py", ["run"], False),
    ],
)
def test_only_the_command_run_ends_with_0_at_an_early_signal(script: str, arguments: list[str], expected: bool) -> None:
    assert early._is_run(script, arguments) is expected


# -- what a file has ------------------------------------------------------------------------------------


class Level(StrEnum):
    LOSSY = "lossy"


def test_values_of_python_are_written_as_a_file_has_them() -> None:
    app = App("shop", store="sqlite:///s.db", kafka=KAFKA, accept_level=Level.LOSSY, start_timeout=timedelta(minutes=1))  # type: ignore[arg-type]
    app.add(
        "totals",
        from_=("orders", {"topic": "more"}),
        dead_letters="dead",
        count=100,
        timeout=timedelta(seconds=1.5),
        compute={"spent": {"reduce": total}},
        start=datetime(2026, 1, 31, tzinfo=UTC),
        to="out",
        having=None,
    )
    document = yaml.safe_load(app.to_yaml())
    assert (document["accept_level"], document["start_timeout"]) == ("lossy", "60s")
    assert document["agents"]["totals"] == {
        "from": ["orders", {"topic": "more"}],
        "dead_letters": "dead",
        "start": "2026-01-31T00:00:00+00:00",
        "to": "out",
        "aggregate": {"count": 100, "timeout": "1.5s", "compute": {"spent": {"reduce": f"{__name__}:total"}}},
    }
    assert [problem.key for problem in app.check()] == ["agents.totals.from"]


def test_a_list_of_the_messages_is_collected_under_the_name_of_the_parameter(app: App) -> None:
    @app.agent(from_="orders", to="out", count=2, compute={"spent": {"sum": "amount"}})
    def both(orders: list[dict[str, Any]], spent: float, send: Send) -> None: ...

    @app.agent(from_="orders", to="out", count=2)
    def batch(batch: Any, send: Send) -> None: ...

    computes = [app.agents[name].document["aggregate"].get("compute") for name in ("both", "batch")]
    assert computes == [{"orders": "collect", "spent": {"sum": "amount"}}, None]


def test_an_agent_is_named_by_its_function_or_by_its_name(app: App) -> None:
    app.agent("carts", from_="orders", to="out")(total)
    app.agent(from_="orders", to="out")(total)
    assert [*app.agents] == ["carts", "total"]
    assert [agent.function for agent in app.agents.values()] == [total, total]
    assert agents(app)["carts"]["handler"] == f"{__name__}:total"
    assert repr(app) == "App('shop', agents=['carts', 'total'])"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (datetime(2026, 1, 1), "a time without a zone"),
        ({1}, "cannot be a set"),
        (lambda value: None, "a handler is a function that `def`"),
    ],
)
def test_a_value_that_no_file_can_hold_is_refused_at_once(app: App, value: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        app.add("a", from_="orders", start=value)


# -- mistakes -------------------------------------------------------------------------------------------


def refused(action: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as error:
        action()
    return str(error.value)


def test_an_unknown_keyword_is_refused_where_it_is_written(app: App) -> None:
    wrong: Any = {"cuont": 3}
    line = here() + 1
    refusal = refused(lambda: app.add("carts", from_="orders", **wrong))
    assert (
        refusal
        == f"tests/unit/app/test_definition.py:{line}:1: agent carts: unknown keyword `cuont`; did you mean count?"
    )
    wrong = {"from": "orders"}
    assert "unknown keyword `from`; did you mean from_?" in refused(lambda: app.agent(**wrong)(total))
    wrong = {"dead_leters": "dead"}
    assert "app shop: unknown keyword `dead_leters`; did you mean dead_letters?" in refused(
        lambda: App("shop", store="memory://", kafka=KAFKA, **wrong)
    )


def test_a_wrong_parameter_names_the_function_and_its_line(app: App) -> None:
    line = here() + 2

    @app.agent(from_="orders", to="out")
    def handle(message: Message, sned: Send) -> None: ...

    refusal = refused(app.check)
    assert refusal.startswith(f"tests/unit/app/test_definition.py:{line}:1: agents.handle.handler: ")
    assert "`sned` is unknown; did you mean send?" in refusal
    assert refusal == refused(app.test_driver)


def test_an_agent_without_to_names_its_line(app: App) -> None:
    line = here() + 1
    app.add("carts", from_="orders", count=3)
    refusal = refused(app.check)
    assert refusal == f"tests/unit/app/test_definition.py:{line}:1: agents.carts.to: is missing; write {{topic: NAME}}"


def test_a_send_without_to_is_a_dead_letter_that_names_the_line(app: App) -> None:
    @app.agent(from_="orders", dead_letters="dead", retry={"attempts": 1})
    def handle(value: Any, send: Send) -> None:
        send(value)

    line = here() - 2
    with app.test_driver() as driver:
        driver.send("orders", {"amount": 1}, key="a")
        (letter,) = driver.dead_letters()
    assert letter.headers["sluicegate-dead-error"].endswith("send() names no topic, and the agent has no `to`")
    assert letter.headers["sluicegate-dead-where"].startswith(f"tests/unit/app/test_definition.py:{line} in ")


def test_every_mistake_is_told_at_once(app: App) -> None:
    app.add("carts", from_="orders", count=0, to="out")
    app.add("bags", from_="a topic", count=2, to="out")
    assert [line.split(": ")[1] for line in refused(app.check).splitlines()] == [
        "agents.carts.aggregate.count",
        "agents.bags.from",
    ]


def test_two_agents_of_one_name_are_refused_with_both_lines(app: App) -> None:
    line = here() + 1
    app.add("carts", from_="orders", count=3, to="out")
    refusal = refused(lambda: app.add("carts", from_="orders", count=3, to="out"))
    assert refusal.endswith(
        f"agent carts is defined already at tests/unit/app/test_definition.py:{line}:1; give it another name"
    )


def test_a_function_that_no_process_can_import_runs_in_a_driver_and_not_in_run(
    app: App, capsys: pytest.CaptureFixture[str]
) -> None:
    line = here() + 2

    @app.agent(from_="orders", to="out")
    def local(value: Any, send: Send) -> None:
        send(value)

    with app.test_driver() as driver:
        driver.send("orders", 1, key="a")
        assert [output.value for output in driver.read("out")] == [1]
    text = f"tests/unit/app/test_definition.py:{line}:1: local: worker processes find only functions at the top of a"
    assert refused(app.to_yaml).startswith(text)
    with pytest.raises(SystemExit) as ended:
        app.run()
    assert (ended.value.code, text in capsys.readouterr().err) == (2, True)


def test_keys_of_the_generated_file_are_the_ones_that_a_call_takes() -> None:
    assert {*keys.AgentKeys.__annotations__} >= {*keys.AggregateKeys.__annotations__, "from_"}


def test_a_callback_of_the_kafka_client_is_no_handler() -> None:
    refusal = refused(lambda: App("shop", store="memory://", kafka={**KAFKA, "oauth_cb": lambda config: None}))
    assert "a value of kafka cannot be a function: every worker process makes it anew from text" in refusal
    assert "such as sasl.oauthbearer.method: oidc" in refusal
