"""`schema: SUBJECT:latest`: a deployment chooses the version, and a restart keeps it."""

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import App
from sluicegate.streams.cli import main
from sluicegate.streams.cli.checking import newest
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.workers import wiring
from sluicegate.streams.engine import following
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.operations.deploying import DeployOptions
from sluicegate.streams.rules import rule_of
from sluicegate.streams.versions import catalogue

FILE = """\
app: app
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
start_timeout: 100ms
schema_registry: {url: "http://127.0.0.1:PORT"}
agents:
  a:
    from: in
    format: avro
    framing: confluent
    aggregate: {count: 9}
    to: {topic: out}
"""
AGAIN = DeployOptions(again=True, leave=True)


class Registry:
    def __init__(self) -> None:
        self.of: dict[str, list[int]] = {"in-value": [1, 2]}
        self.away, self.asked = False, 0

    def versions(self, subject: str) -> list[int]:
        self.asked += 1
        if self.away:
            raise Unavailable("the schema registry does not answer")
        return self.of.get(subject, [])


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    schema_registry = Registry()
    monkeypatch.setattr(newest, "open_registry", lambda settings: schema_registry)
    monkeypatch.setattr("sluicegate.streams.cli.opening.waiting._knock", lambda system: None)
    return schema_registry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.yaml"
    path.write_text(FILE.replace("PORT", "1"))
    app = loaded(str(path))
    open_store(app.store, app.folder).migrate()
    return path


def started(file: Path, options: DeployOptions = wiring.AS_RUN) -> App:
    """The app as `run` hands it to its workers."""
    app = wiring._with_versions(loaded(str(file)), ["a"], options, time.sleep)
    wiring.record(app, ["a"], options)
    return app


def pinned(app: App) -> str:
    return app.agents[0].schema.pinned  # type: ignore[union-attr]


def versions(file: Path) -> list[tuple[int, str]]:
    app = loaded(str(file))
    with newest.connected(app) as store:
        rules = catalogue.read(store, "app")["a"].versions
    return [(rule.number, rule.agent.schema.pinned) for rule in rules if rule.agent and rule.agent.schema]


def invoked(file: Path, *command: str) -> Result:
    return CliRunner().invoke(main, [command[0], str(file), *command[1:]])


def test_the_first_start_takes_the_newest_and_a_restart_keeps_it_also_without_the_registry(
    file: Path, registry: Registry
) -> None:
    assert pinned(started(file)) == "in-value:2"
    registry.of["in-value"].append(3)
    asked = registry.asked
    assert pinned(started(file)) == "in-value:2"
    registry.away = True
    assert pinned(started(file)) == "in-value:2"
    assert (versions(file), registry.asked) == ([(1, "in-value:2")], asked)


def test_without_the_store_a_restart_would_change_the_rule(
    file: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the version that was deployed is forgotten."""
    started(file)
    registry.of["in-value"].append(3)
    monkeypatch.setattr(newest, "deployed", lambda app, names: app)
    monkeypatch.setattr("sluicegate.streams.operations.deploying.settled", lambda agent, deployed: agent)
    assert pinned(started(file)) == "in-value:3"
    assert versions(file) == [(1, "in-value:2"), (2, "in-value:3")]


def test_a_start_that_lost_the_race_takes_the_version_of_the_other(file: Path, registry: Registry) -> None:
    """Another `run` recorded its rule after this one had looked into the store."""
    app = wiring._with_versions(loaded(str(file)), ["a"], wiring.AS_RUN, time.sleep)
    registry.of["in-value"].append(3)
    started(file)
    wiring.record(app, ["a"], wiring.AS_RUN)
    assert versions(file) == [(1, "in-value:3")]


def test_deploy_takes_the_newest_and_workers_go_on_with_it(file: Path, registry: Registry) -> None:
    before = started(file).agents[0]
    registry.of["in-value"].append(3)
    result = invoked(file, "deploy", "--yes", "--no-wait")
    assert result.exit_code == 0, result.output
    assert versions(file) == [(1, "in-value:2"), (2, "in-value:3")]
    with newest.connected(loaded(str(file))) as store:
        deployed = catalogue.read(store, "app")["a"]
    after = following.running(before, deployed)
    assert after.schema is not None
    assert (after.schema.pinned, rule_of(after).digest) == ("in-value:3", deployed.digest)
    assert following.outdated(before, deployed) == ""
    assert pinned(started(file)) == "in-value:3"


def test_without_settling_a_worker_of_the_same_file_would_say_that_it_is_outdated(
    file: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    before = started(file).agents[0]
    registry.of["in-value"].append(3)
    invoked(file, "deploy", "--yes", "--no-wait")
    with newest.connected(loaded(str(file))) as store:
        deployed = catalogue.read(store, "app")["a"]
    monkeypatch.setattr(following, "settled", lambda agent, deployed: agent)
    assert "the file is version 1" in following.outdated(before, deployed)


def test_plan_shows_the_version_that_a_deployment_would_take(file: Path, registry: Registry) -> None:
    started(file)
    assert "unchanged: a" in invoked(file, "plan", "--no-replay").stdout
    registry.of["in-value"].append(3)
    assert "schema in-value:2 -> in-value:3" in invoked(file, "plan", "--no-replay").stdout
    registry.away = True
    result = invoked(file, "plan", "--no-replay")
    assert "the newest version of a schema is not known: the schema registry does not answer" in result.stderr


def test_run_deploy_keeps_the_version_while_the_registry_is_away(file: Path, registry: Registry) -> None:
    started(file)
    registry.of["in-value"].append(3)
    registry.away = True
    assert pinned(started(file, AGAIN)) == "in-value:2"
    registry.away = False
    assert pinned(started(file, AGAIN)) == "in-value:3"


def test_nothing_starts_before_the_version_is_known(file: Path, registry: Registry) -> None:
    registry.away = True
    with pytest.raises(SystemNotReady, match=r"the schema registry at .* is not ready: .* does not answer"):
        started(file)
    registry.away = False
    registry.of.clear()
    with pytest.raises(SystemNotReady, match="no version of the subject in-value: register a schema, or write schema"):
        started(file)
    assert invoked(file, "deploy", "--yes", "--no-wait").exit_code == 3


def test_another_subject_is_chosen_anew(file: Path, registry: Registry) -> None:
    started(file)
    registry.of["other"] = [7]
    file.write_text(file.read_text().replace("    framing", "    schema: other:latest\n    framing"))
    assert pinned(started(file)) == "other:7"
    assert versions(file) == [(1, "in-value:2"), (2, "other:7")]


def test_a_store_in_memory_chooses_at_each_start(file: Path, registry: Registry) -> None:
    file.write_text(file.read_text().replace("sqlite:///state.db", "memory://"))
    assert pinned(started(file)) == "in-value:2"
    registry.of["in-value"].append(3)
    assert pinned(started(file)) == "in-value:3"
