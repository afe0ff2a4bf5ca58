"""`sluicegate deploy` and the catalogue of versions, with groups that a run has left open in a store."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.workers import wiring
from sluicegate.streams.contracts.values import Changes, Generation, Partition, Source
from sluicegate.streams.engine import following
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError, Fenced, RestartNeeded
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations import deploying
from sluicegate.streams.operations.deploying import DeployOptions
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.stored import agent_text
from sluicegate.streams.rules.versions import Deployed, with_rule
from sluicegate.streams.versions import catalogue
from tests.unit.cli.test_plan import FILE
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent, feed

LESS = FILE.replace("count: 9", "count: 3")
KEYED = FILE.replace("    aggregate:", "    key: amount\n    aggregate:")
AS_RUN = wiring.AS_RUN
Deploy = Callable[..., Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "app.yaml").write_text(FILE)
    return tmp_path / "app.yaml"


@pytest.fixture
def store(file: Path) -> Any:
    app = loaded(str(file))
    opened_store = open_store(app.store, app.folder)
    opened_store.migrate()
    return opened_store


@pytest.fixture
def deploy(file: Path, store: Any) -> Deploy:
    def invoke(text: str, *more: str) -> Result:
        file.write_text(text)
        return CliRunner().invoke(main, ["deploy", str(file), "--yes", "--no-wait", *more])

    return invoke


def ran(file: Path, store: Any) -> Log:
    """Groups of two records and of one are open under version 1."""
    app = loaded(str(file))
    deploying.deploy(store, app, ["a"], AS_RUN, Person("me", "", "first"))
    log = a_log("in", "out", "app.dead")
    feed(log, ("x", 1), ("x", 1), ("z", 1))
    Driver(app.agents[0], store, log, ManualClock(), deployed=catalogue.read(store, "app")["a"]).give(0).turns()
    return log


def versions(store: Any) -> list[tuple[int, str]]:
    return [(version.number, version.policy) for version in catalogue.read(store, "app")["a"].versions]


def test_a_file_becomes_the_next_version(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    result = deploy(LESS, "--why", "fewer", "--by", "me")
    assert result.exit_code == 0
    assert f"a: version 1 -> 2, rule {rule_of(loaded(str(file)).agents[0]).short}, --open convert" in result.stderr
    [*_, last] = catalogue.read(store, "app")["a"].versions
    assert (last.number, last.who, last.why, last.agent) == (2, "me", "fewer", loaded(str(file)).agents[0])


def test_a_group_is_explained_by_the_rule_that_runs_whatever_the_file_says(
    file: Path, store: Any, deploy: Deploy
) -> None:
    ran(file, store)
    file.write_text(LESS)
    why = CliRunner().invoke(main, ["groups", "why", str(file), "a", "x"]).stdout
    assert "in/0: 2 of 9 records" in why
    assert "explained by version 1 of the rule, which runs: agent a: the file is not deployed" in why
    document = json.loads(CliRunner().invoke(main, ["groups", "why", str(file), "a", "x", "--json"]).stdout)
    assert document["note"].startswith("explained by version 1 of the rule")
    deploy(LESS)
    why = CliRunner().invoke(main, ["groups", "why", str(file), "a", "x"]).stdout
    assert "2 of 3 records" in why
    assert "explained" not in why


def test_the_same_file_changes_nothing(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    assert "unchanged" in deploy(FILE).stdout
    assert versions(store) == [(1, "refuse")]


def test_a_change_that_groups_cannot_take_asks_for_a_policy(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    result = deploy(KEYED)
    assert result.exit_code == 2
    assert "2 open groups, key changed: they cannot go on under the new rule; add --open finish" in result.stderr
    assert versions(store) == [(1, "refuse")]
    assert deploy(KEYED, "--open", "finish").exit_code == 0
    assert versions(store) == [(1, "refuse"), (2, "finish")]


def test_a_policy_that_does_not_suit_is_refused(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    assert deploy(KEYED, "--open", "convert").exit_code == 2


def test_a_shared_buffer_that_the_new_rule_cannot_read_is_refused(file: Path, store: Any, deploy: Deploy) -> None:
    shared = FILE.replace("    aggregate:", "    scope: shared\n    aggregate:")
    file.write_text(shared)
    ran(file, store)
    other = shared.replace("    aggregate:", "    format: tests.unit.aggregation.formats:backwards\n    aggregate:")
    result = deploy(other)
    assert result.exit_code == 2
    assert "the shared buffer cannot be read under the new rule" in result.stderr
    assert deploy(shared.replace("count: 9", "count: 8")).exit_code == 0
    assert versions(store) == [(1, "refuse"), (2, "convert")]


def test_a_deployment_in_between_is_noticed(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    assert deploy(LESS, "--expect", "1").exit_code == 0
    result = deploy(KEYED, "--open", "finish", "--expect", "1")
    assert (result.exit_code, "version 2 runs, --expect says 1" in result.stderr) == (2, True)


def test_two_at_once_make_two_versions_and_lose_none(
    file: Path, store: Any, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another deployment lands between the plan and the commit of this one."""
    ran(file, store)
    file.write_text(LESS)
    less, person = loaded(str(file)), Person("other", "", "other")
    commit = catalogue.deploy

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(catalogue, "deploy", commit)
        deploying.deploy(store, less, ["a"], DeployOptions(), person)
        return commit(*arguments)

    monkeypatch.setattr(catalogue, "deploy", late)
    assert deploy(LESS.replace("count: 3", "count: 4")).exit_code == 0
    assert [number for number, _ in versions(store)] == [1, 2, 3]


def test_a_claim_in_between_fences_the_commit(store: Any) -> None:
    def change(before: Any, at: float) -> Any:
        store.claim(catalogue.place("app"), "another", "another")
        return {"a": Deployed()}

    with pytest.raises(Fenced):
        catalogue.deploy(store, "app", "token", "me", change)
    assert catalogue.read(store, "app") == {}


def test_a_damaged_catalogue_is_not_read(store: Any) -> None:
    catalogue.deploy(store, "app", "token", "me", lambda before, at: {"a": Deployed()})
    claim = store.claim(catalogue.place("app"), "other", "me")
    store.commit(claim, Changes(0, entries=[b"\x03junk"], keep_from=claim.last + 1))
    with pytest.raises(ChangelogIncomplete):
        catalogue.read(store, "app")


def test_a_removed_agent_with_open_groups_is_refused(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    other = FILE.replace("  a:\n", "  b:\n")
    result = deploy(other)
    assert result.exit_code == 2
    assert "agent a is not in this file, and no worker fires or sends what the store holds of it: 2 open groups" in (
        result.stderr
    )
    assert "or add --leave" in result.stderr
    assert deploy(other, "--leave").exit_code == 0


def test_a_fourth_generation_is_refused(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    place = Partition("app", "a", "in", 0)
    claim = store.claim(place, "token", "me")
    older = tuple(catalogue_generation(number) for number in (1, 2))
    store.commit(claim, Changes(claim.offset, source=Source("in", 1, claim.source.rule, version=1, older=older)))
    result = deploy(KEYED, "--open", "finish")
    assert (result.exit_code, "groups of 2 earlier versions still finish in in/0" in result.stderr) == (2, True)
    assert deploy(KEYED, "--open", "flush").exit_code == 0


def catalogue_generation(number: int) -> Generation:
    return Generation(number, 1, "finish", agent_text(an_agent("a")))


def test_the_form_for_machines(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    document = json.loads(deploy(LESS, "--json").stdout)
    short = rule_of(loaded(str(file)).agents[0]).short
    assert document == {"format": 1, "agents": [{"name": "a", "from": 1, "to": 2, "rule": short, "open": "convert"}]}


# -- run ---------------------------------------------------------------------------------------------------------------


def test_run_records_a_file_that_was_never_deployed(file: Path, store: Any) -> None:
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    file.write_text(LESS)
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    assert versions(store) == [(1, "refuse"), (2, "convert")]


def test_run_leaves_the_agents_of_another_file_alone(file: Path, store: Any) -> None:
    ran(file, store)
    file.write_text(FILE.replace("  a:\n", "  b:\n"))
    wiring.record(loaded(str(file)), ["b"], wiring.AS_RUN)
    assert {name: entry.number for name, entry in catalogue.read(store, "app").items()} == {"a": 1, "b": 1}


def test_run_does_not_make_an_earlier_version_the_newest(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    deploy(LESS)
    file.write_text(FILE)
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    assert [number for number, _ in versions(store)] == [1, 2]
    wiring.record(loaded(str(file)), ["a"], DeployOptions(again=True))  # run --deploy
    assert [number for number, _ in versions(store)] == [1, 2, 3]


def test_run_refuses_a_change_that_open_groups_cannot_take(file: Path, store: Any) -> None:
    ran(file, store)
    file.write_text(KEYED)
    app = loaded(str(file))
    with pytest.raises(ConfigurationError, match="they cannot go on under the new rule"):
        wiring.record(app, ["a"], AS_RUN)
    wiring.record(app, ["a"], DeployOptions(ends="flush", again=False))
    assert versions(store) == [(1, "refuse"), (2, "flush")]


def test_an_outdated_file_runs_the_deployed_rule_and_says_so(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    old = loaded(str(file)).agents[0]
    deploy(LESS)
    entry = catalogue.read(store, "app")["a"]
    assert rule_of(following.running(old, entry)).digest == entry.digest != rule_of(old).digest
    assert following.outdated(old, entry) == (
        f"agent a: the file is version 1, deployed is version 2: `sluicegate deploy {file}` makes it version 3"
    )
    assert following.outdated(loaded(str(file)).agents[0], entry) == ""


def test_another_revision_of_functions_needs_another_process(file: Path, store: Any, deploy: Deploy) -> None:
    code = FILE.replace("{sum: amount}", "{reduce: 'builtins:max'}")
    code = code.replace("    aggregate:", "    REV\n    aggregate:")
    file.write_text(code.replace("REV", "revision: one"))
    ran(file, store)
    old = loaded(str(file)).agents[0]
    assert deploy(code.replace("REV", "revision: two")).exit_code == 0
    with pytest.raises(RestartNeeded, match="needs revision 'two', and this process has 'one'"):
        following.running(old, catalogue.read(store, "app")["a"])


def test_what_is_not_the_rule_stays_the_file_s(file: Path) -> None:
    one = loaded(str(file)).agents[0]
    file.write_text(LESS.replace("    to:", "    on_error: {decode: skip}\n    dead_letters: other\n    to:"))
    other = loaded(str(file)).agents[0]
    merged = with_rule(one, other)
    assert rule_of(merged) == rule_of(other)
    assert (merged.dead_letters, merged.on_error) == (one.dead_letters, one.on_error)


def test_rules_that_no_partition_needs_are_forgotten(file: Path, store: Any, deploy: Deploy) -> None:
    log = ran(file, store)
    for count in (3, 4, 5):
        assert deploy(FILE.replace("count: 9", f"count: {count}")).exit_code == 0
    agents = [version.agent is not None for version in catalogue.read(store, "app")["a"].versions]
    assert agents == [True, True, True, True]  # the partition is at version 1
    entry = catalogue.read(store, "app")["a"]
    Driver(loaded(str(file)).agents[0], store, log, ManualClock(), deployed=entry).give(0).turns()
    assert deploy(FILE.replace("count: 9", "count: 6")).exit_code == 0
    agents = [version.agent is not None for version in catalogue.read(store, "app")["a"].versions]
    assert agents == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("text", "on_change", "expected"),
    [
        (LESS, "", "convert"),
        (LESS, "finish", "finish"),
        (LESS, "flush", "flush"),
        (KEYED, "drop", "drop"),
        (KEYED, "finish", "finish"),
    ],
)
def test_run_treats_open_groups_as_on_change_says(
    file: Path, store: Any, text: str, on_change: str, expected: str
) -> None:
    ran(file, store)
    file.write_text(on_changed(text, on_change))
    deploying.deploy(store, loaded(str(file)), ["a"], AS_RUN, Person("me", "", "second"))
    assert versions(store)[-1] == (2, expected)


@pytest.mark.parametrize(
    ("text", "on_change", "expected"),
    [
        (LESS, "refuse", "agent a: on_change is refuse, and there are 2 groups open under the rule that runs: deploy"),
        (KEYED, "convert", "agent a: 2 open groups, key changed: they cannot go on under the new rule"),
    ],
)
def test_run_refuses_open_groups_that_on_change_does_not_allow(
    file: Path, store: Any, text: str, on_change: str, expected: str
) -> None:
    ran(file, store)
    file.write_text(on_changed(text, on_change))
    with pytest.raises(ConfigurationError, match=expected):
        deploying.deploy(store, loaded(str(file)), ["a"], AS_RUN, Person("me", "", "second"))
    assert len(versions(store)) == 1


def test_a_command_that_names_the_policy_comes_before_on_change(file: Path, store: Any, deploy: Deploy) -> None:
    ran(file, store)
    assert deploy(on_changed(LESS, "refuse"), "--open", "flush").exit_code == 0
    assert versions(store)[-1] == (2, "flush")


def test_without_open_groups_on_change_refuse_refuses_nothing(file: Path, store: Any) -> None:
    deploying.deploy(store, loaded(str(file)), ["a"], AS_RUN, Person("me", "", "first"))
    file.write_text(on_changed(LESS, "refuse"))
    deploying.deploy(store, loaded(str(file)), ["a"], AS_RUN, Person("me", "", "second"))
    assert len(versions(store)) == 2


def on_changed(text: str, policy: str) -> str:
    return text.replace("    aggregate:", f"    on_change: {policy}\n    aggregate:") if policy else text


RETRIED = FILE.replace("    to: {topic: out}\n", "    to: {topic: out}\n    on_error: {decode: skip}\n")


def test_a_plan_of_the_file_that_runs_has_no_change(file: Path, store: Any) -> None:
    """A key that is no rule holds from the restart on, without a deployment."""
    ran(file, store)
    file.write_text(RETRIED)
    invoke = partial(CliRunner().invoke, main, ["plan", str(file), "--no-replay"])
    assert "on_error" in invoke().stdout
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    assert invoke().stdout == "unchanged: a\n"
    assert versions(store) == [(1, "refuse")]


def test_a_restart_with_the_same_file_writes_nothing(file: Path, store: Any) -> None:
    ran(file, store)
    file.write_text(RETRIED)
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    before = store.read(catalogue.place("app"))
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    after = store.read(catalogue.place("app"))
    assert (after.claim.token, after.entries) == (before.claim.token, before.entries)


def test_the_keys_of_an_earlier_file_are_those_that_run_under_the_deployed_rule(
    file: Path, store: Any, deploy: Deploy
) -> None:
    ran(file, store)
    assert deploy(LESS).exit_code == 0
    file.write_text(RETRIED)
    wiring.record(loaded(str(file)), ["a"], AS_RUN)
    [*_, last] = catalogue.read(store, "app")["a"].versions
    assert (last.number, last.agent.aggregation.count, last.agent.on_error.decode) == (2, 3, "skip")
