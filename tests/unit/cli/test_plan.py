"""`sluicegate plan`: what a changed file would do, with the groups that a run has left open in a store."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.demo.file import text as flights
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations import deploying
from sluicegate.streams.rules import rule_of
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, feed

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a:
    from: in
    aggregate:
      count: 9
      timeout: {after: 10m, since: first}
      compute: {n: count, total: {sum: amount}}
    to: {topic: out}
"""
OTHER = "  b: {from: in, aggregate: {count: 5}, to: {topic: out2}, dead_letters: d}\n"
Plan = Callable[..., Result]


@pytest.fixture
def old(tmp_path: Path) -> str:
    (tmp_path / "old.yaml").write_text(FILE)
    return str(tmp_path / "old.yaml")


@pytest.fixture
def plan(tmp_path: Path, old: str) -> Plan:
    """With the text of the new file."""

    def invoke(text: str, *more: str, against: str = old) -> Result:
        (tmp_path / "new.yaml").write_text(text)
        arguments = ["plan", str(tmp_path / "new.yaml"), "--against", against, "--no-replay", *more]
        return CliRunner().invoke(main, arguments)

    return invoke


def said(result: Result) -> list[str]:
    """The lines, without the width of their columns."""
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def document(result: Result) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def migrated(file: str) -> Any:
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    return store


def filled(file: str, name: str = "a", *records: tuple[str, int]) -> tuple[Any, Log]:
    """Groups of 5, 3 and 1 records are open."""
    log = a_log("in", "out", "app.dead")
    feed(log, *(records or (*[("x", 1)] * 5, *[("y", 1)] * 3, ("z", 1))))
    app = loaded(file)
    agent = next(agent for agent in app.agents if agent.name == name)
    driver = Driver(agent, migrated(file), log, ManualClock()).give(0).turns()
    return driver, log


def test_a_lowered_count_says_how_many_groups_fire_at_once(plan: Plan, old: str) -> None:
    filled(old)
    result = plan(FILE.replace("count: 9", "count: 3"))
    one, other = (rule_of(loaded(file).agents[0]).short for file in (old, old.replace("old.yaml", "new.yaml")))
    assert result.exit_code == 0
    assert said(result) == [
        f"a: rule {one} -> {other} class: end of a group",
        "change aggregate.count 9 -> 3",
        "open now 3 groups in 1 partition; --open finish: all end under the rule that runs now; --open convert: 2 of "
        "them fire at once; --open rewind: the records of all are read again; --open flush: 3 of them fire at once; "
        "--open drop: all are forgotten",
    ]


def test_the_figure_is_what_really_fires(plan: Plan, old: str) -> None:
    _, log = filled(old)
    new = FILE.replace("count: 9", "count: 3")
    figure = document(plan(new, "--json"))["agents"][0]["open"]["convert"]["fire"]
    changed = loaded(old.replace("old.yaml", "new.yaml")).agents[0]
    Driver(changed, migrated(old), log, ManualClock()).give(0).turns()
    fired = [
        (header(message, "sluicegate-reason"), header(message, "sluicegate-rule")) for message in distinct(log, "out")
    ]
    assert sorted(fired) == [("count", rule_of(changed).short), ("count-lowered", rule_of(changed).short)]
    assert figure == len(fired)


def test_a_shorter_timeout_fires_what_is_due_under_it(plan: Plan, old: str) -> None:
    """By the store's clock. The last group was opened by a clock that was a minute ahead: it counts from now on."""
    driver, log = filled(old)
    driver.later(60)
    feed(log, ("late", 1))
    driver.turns()
    assert document(plan(FILE.replace("10m", "9m"), "--json"))["agents"][0]["open"]["convert"]["fire"] == 0
    conversions = document(plan(FILE.replace("10m", "1ms"), "--json"))["agents"][0]["open"]["convert"]
    assert conversions == {"groups": 4, "fire": 4, "refused": None}


def test_times_have_a_unit_and_another_topic_is_one_change(plan: Plan, old: str) -> None:
    filled(old)
    printed = said(plan(FILE.replace("10m", "90s").replace("from: in", "from: others"), "--no-replay"))
    assert "change aggregate.timeout.first 10 min -> 90 s" in printed
    assert "change from in -> others" in printed


def test_a_lower_limit_fires_what_is_over_it(plan: Plan, old: str) -> None:
    filled(old)
    conversions = document(plan(FILE.replace("count: 9", "max_items: 4"), "--json"))["agents"][0]["open"]["convert"]
    assert conversions == {"groups": 3, "fire": 1, "refused": None}


def test_another_key_is_refused_while_groups_are_open(plan: Plan, old: str) -> None:
    filled(old)
    new = FILE.replace("    aggregate:", "    key: amount\n    aggregate:")
    result = plan(new)
    assert result.exit_code == 4
    assert said(result)[1:] == [
        "change key not set -> amount",
        "open now 3 groups in 1 partition; --open finish: all end under the rule that runs now; --open "
        "rewind: the records of all are read again; --open flush: 3 of "
        "them fire at once; --open drop: all are forgotten",
        "refused 3 open groups, key changed: they cannot go on under the new rule; add --open finish or "
        "--open rewind or --open flush "
        "or --open drop",
    ]


@pytest.mark.parametrize(("policy", "fate"), [("flush", "3 of them fire at once"), ("drop", "all are forgotten")])
def test_with_a_policy_that_does_nothing_is_refused(plan: Plan, old: str, policy: str, fate: str) -> None:
    filled(old)
    result = plan(FILE.replace("    aggregate:", "    key: amount\n    aggregate:"), "--open", policy)
    assert result.exit_code == 0
    assert said(result)[2:] == [f"open now 3 groups in 1 partition; --open {policy}: {fate}"]


def test_convert_is_refused_where_groups_cannot_go_on(plan: Plan, old: str) -> None:
    filled(old)
    new = FILE.replace("{sum: amount}", "{sum: price}")
    result = plan(new, "--open", "convert", "--json")
    assert result.exit_code == 4
    why = "they cannot go on under the new rule; add --open finish or --open rewind or --open flush or --open drop"
    assert document(result)["agents"][0]["open"] == {"convert": {"groups": 3, "fire": None, "refused": why}}
    assert document(result)["refused"] == [f"a: 3 open groups, aggregate.compute.total changed: {why}"]


def test_flush_ends_groups_that_could_go_on_as_well(plan: Plan, old: str) -> None:
    filled(old)
    result = plan(FILE.replace("count: 9", "count: 3"), "--json")
    assert document(result)["agents"][0]["open"]["flush"] == {"groups": 3, "fire": 3, "refused": None}


@pytest.mark.parametrize(
    "new",
    [FILE.replace("total: {sum", "total: {max"), FILE.replace("n: count, ", ""), FILE.replace("n: count", "m: count")],
)
def test_what_groups_hold_is_converted(plan: Plan, old: str, new: str) -> None:
    filled(old)
    result = plan(new, "--json")
    answer = document(result)
    assert answer["agents"][0]["class"] == "compute, from what groups hold"
    assert (result.exit_code, answer["agents"][0]["open"]["convert"]["fire"]) == (0, 0)


def test_without_open_groups_nothing_is_refused(plan: Plan, old: str) -> None:
    migrated(old)
    result = plan(FILE.replace("    aggregate:", "    key: amount\n    aggregate:"))
    assert result.exit_code == 0
    assert said(result)[2:] == ["open now 0 groups in 0 partitions"]


def test_a_removed_agent_that_holds_groups_is_refused(plan: Plan, old: str) -> None:
    filled(old)
    result = plan(FILE.replace("  a:\n", "  c:\n"))
    stays = "is removed: 3 open groups stay in the store, and no agent fires or sends them"
    assert result.exit_code == 4
    assert said(result) == [
        "c: added class: topics or agents",
        "a: removed class: topics or agents",
        f"refused {stays}; run the old file until they are gone",
    ]


def test_a_removed_topic_that_holds_groups_is_refused(plan: Plan, old: str) -> None:
    filled(old)
    result = plan(FILE.replace("from: in", "from: other"), "--json")
    answer = document(result)
    assert result.exit_code == 4
    assert answer["agents"][0]["left"] == {"groups": 3, "items": 0, "rows": 0}
    assert answer["agents"][0]["now"] == {"groups": 0, "items": 0, "rows": 0}
    assert answer["refused"] == [
        "a: no longer reads in: 3 open groups stay in the store, and no agent fires or sends them; run the old file "
        "until they are gone"
    ]


def test_unsent_rows_are_counted(plan: Plan, old: str) -> None:
    driver, log = filled(old)
    driver.producer.room = 0
    feed(log, *[("x", 1)] * 4)
    driver.turns()
    assert said(plan(FILE.replace("count: 9", "count: 8")))[2:] == [
        "open now 2 groups in 1 partition; --open finish: all end under the rule that runs now; --open convert: 0 of "
        "them fire at once; --open rewind: the records of all are read again; --open flush: 2 of them fire at once; "
        "--open drop: all are forgotten",
        "unsent 1 row",
    ]
    result = plan(FILE.replace("  a:\n", "  c:\n"), "--json")
    assert (result.exit_code, document(result)["agents"][1]["left"]) == (4, {"groups": 2, "items": 0, "rows": 1})


def test_the_groups_of_a_shared_buffer_are_counted_and_may_be_converted(plan: Plan, tmp_path: Path) -> None:
    text = FILE.replace("    aggregate:", "    scope: shared\n    aggregate:")
    (tmp_path / "one.yaml").write_text(text)
    filled(str(tmp_path / "one.yaml"))
    result = plan(text.replace("{sum: amount}", "{sum: price}"), "--json", against=str(tmp_path / "one.yaml"))
    [agent] = document(result)["agents"]
    assert (result.exit_code, agent["class"], agent["now"]["groups"]) == (0, "key or compute", 3)
    assert agent["open"]["convert"] == {"groups": 3, "fire": None, "refused": None}
    back = plan(text.replace("    scope: shared\n", ""), against=str(tmp_path / "one.yaml"))
    assert back.exit_code == 4
    assert "3 open groups, scope changed: they cannot go on under the new rule; add --open drop" in back.stdout
    other = text.replace("    aggregate:", "    format: tests.unit.aggregation.formats:backwards\n    aggregate:")
    unread = plan(other, against=str(tmp_path / "one.yaml"))
    assert "the shared buffer cannot be read under the new rule; run the old file until it is empty" in unread.stdout


def test_an_agent_with_repartition_is_planned_in_its_two_halves(plan: Plan, tmp_path: Path) -> None:
    text = FILE.replace("    aggregate:", "    key: amount\n    repartition: keyed\n    aggregate:")
    (tmp_path / "one.yaml").write_text(text)
    result = plan(text.replace("key: amount", "key: price"), "--json", against=str(tmp_path / "one.yaml"))
    agents = document(result)["agents"]
    assert [(agent["name"], [it["path"] for it in agent["changes"]]) for agent in agents] == [
        ("a.repartition", ["key"]),
        ("a", []),
    ]
    assert result.exit_code == 0  # the first half has no groups


def test_another_app_carries_nothing_over(plan: Plan, old: str) -> None:
    filled(old)
    result = plan(FILE.replace("app: app", "app: shop"))
    assert result.exit_code == 4
    assert [line for line in said(result) if line.startswith(("change app", "refused"))] == [
        "change app app -> shop",
        "refused nothing is carried over: 3 open groups stay in the store, and no agent fires or sends them; run the "
        "old file until they are gone",
    ]
    assert "class: app or store" in result.stdout


def test_another_store_carries_nothing_over_and_shows_no_password(plan: Plan, tmp_path: Path) -> None:
    one, other = (FILE.replace("sqlite:///state.db", f"redis://u:secret@{name}:1/0") for name in ("127.0.0.1", "::1"))
    (tmp_path / "one.yaml").write_text(one)
    result = plan(other.replace("::1", "[::1]"), against=str(tmp_path / "one.yaml"))
    assert "change store redis://127.0.0.1:1/0 -> redis://[::1]:1/0" in said(result)
    assert "secret" not in result.output


def test_another_password_is_the_same_store(plan: Plan, tmp_path: Path) -> None:
    one, other = (FILE.replace("sqlite:///state.db", f"redis://u:{name}@127.0.0.1:1/0") for name in ("old", "new"))
    (tmp_path / "one.yaml").write_text(one)
    result = plan(other, against=str(tmp_path / "one.yaml"))
    assert said(result)[:2] == ["unchanged: a", "the file: store changed, which holds from the restart on"]


def test_what_belongs_to_the_file_leaves_the_rule(plan: Plan, old: str) -> None:
    migrated(old)
    new = FILE.replace("    to:", "    on_error: {decode: skip}\n    to:").replace("http: false", "start_timeout: 5s")
    result = plan(new)
    rule = rule_of(loaded(old).agents[0]).short
    assert result.exit_code == 0
    assert said(result) == [
        f"a: rule {rule}, unchanged class: the file",
        'change on_error not set -> {"decode": "skip"}',
        "open now 0 groups in 0 partitions",
        "the file: start_timeout, http changed, which holds from the restart on",
    ]


def test_groups_of_another_file_than_the_one_that_runs_are_not_judged(plan: Plan, old: str, tmp_path: Path) -> None:
    filled(old)
    (tmp_path / "older.yaml").write_text(FILE.replace("total: {sum", "total: {max"))
    result = plan(FILE, against=str(tmp_path / "older.yaml"))
    assert result.exit_code == 2
    assert "the open groups of in/0 were filled under another key, compute, format or scope" in result.stderr


# -- without a store ---------------------------------------------------------------------------------------------------


def test_without_a_store_the_files_are_compared(plan: Plan, tmp_path: Path) -> None:
    result = plan(FILE.replace("count: 9", "count: 3"))
    assert result.exit_code == 0
    assert said(result)[1] == "change aggregate.count 9 -> 3"
    assert said(result)[2].startswith("open groups are not known: the store is not migrated")
    assert not (tmp_path / "state.db").exists()


def test_a_store_that_does_not_answer_is_said(plan: Plan, tmp_path: Path) -> None:
    text = FILE.replace("sqlite:///state.db", "redis://127.0.0.1:1/0").replace("http: false", "start_timeout: 300ms")
    (tmp_path / "one.yaml").write_text(text)
    result = plan(text, against=str(tmp_path / "one.yaml"))
    assert result.exit_code == 0
    assert said(result)[0] == "unchanged: a"
    assert said(result)[1].startswith("open groups are not known: the store at 127.0.0.1:1 is not ready")


def test_the_memory_of_a_run_cannot_be_asked(plan: Plan, tmp_path: Path) -> None:
    text = FILE.replace("sqlite:///state.db", "memory://")
    (tmp_path / "one.yaml").write_text(text)
    result = plan(text, against=str(tmp_path / "one.yaml"))
    assert said(result)[1] == "open groups are not known: the state is in the memory of `sluicegate run`"


def test_a_change_that_open_groups_cannot_take_is_refused_without_a_store(plan: Plan) -> None:
    result = plan(FILE.replace("{sum: amount}", "{sum: price}"))
    assert result.exit_code == 4
    assert said(result)[2] == (
        "refused where groups are open, aggregate.compute.total changed: they cannot go on under the new rule; add "
        "--open finish or --open rewind or --open flush or --open drop"
    )


@pytest.mark.parametrize(("listed", "code"), [("refused", 4), ("", 0)])
def test_the_caller_says_what_ends_with_4(plan: Plan, listed: str, code: int) -> None:
    assert plan(FILE.replace("{sum: amount}", "{sum: price}"), "--fail-on", listed).exit_code == code


@pytest.mark.parametrize(
    ("listed", "text"),
    [
        ("refusd", "--fail-on refusd: known are changed, missing, extra, dead, uncertain, refused"),
        ("changed,refused", "--fail-on changed needs the replay: leave out --no-replay"),
    ],
)
def test_a_list_that_cannot_be_judged_is_refused(plan: Plan, listed: str, text: str) -> None:
    result = plan(FILE, "--fail-on", listed)
    assert (result.exit_code, text in result.stderr) == (2, True)


def test_only_the_agents_that_are_named(plan: Plan, old: str, tmp_path: Path) -> None:
    Path(old).write_text(FILE + OTHER)
    new = FILE.replace("count: 9", "count: 3") + OTHER.replace("count: 5", "count: 6")
    answer = document(plan(new, "--agent", "b", "--json"))
    assert [(agent["name"], agent["changes"]) for agent in answer["agents"]] == [
        ("b", [{"path": "aggregate.count", "from": 5, "to": 6, "class": "end of a group"}])
    ]


def test_an_agent_of_neither_file_is_refused(plan: Plan) -> None:
    result = plan(FILE, "--agent", "c")
    assert (result.exit_code, "there is no agent 'c'; the files have a" in result.stderr) == (2, True)


def test_it_needs_the_file_that_runs(tmp_path: Path, old: str) -> None:
    migrated(old)
    result = CliRunner().invoke(main, ["plan", old, "--no-replay"])
    assert result.exit_code == 2
    assert "add --against OLD.yaml" in result.stderr


def test_without_a_file_to_compare_with_it_takes_the_deployed_rules(tmp_path: Path, old: str) -> None:
    store = migrated(old)
    deploying.deploy(store, loaded(old), ["a"], deploying.DeployOptions(), Person("me", "", "token"))
    (tmp_path / "new.yaml").write_text(FILE.replace("count: 9", "count: 3"))
    result = CliRunner().invoke(main, ["plan", str(tmp_path / "new.yaml"), "--no-replay"])
    assert result.exit_code == 0
    assert said(result)[1] == "change aggregate.count 9 -> 3"


def test_a_file_with_a_problem_is_refused(plan: Plan) -> None:
    result = plan(FILE.replace("count: 9", "count: x"))
    assert (result.exit_code, "count" in result.stderr) == (2, True)


def test_the_form_for_machines(plan: Plan, old: str) -> None:
    filled(old)
    before = rule_of(loaded(old).agents[0]).short
    answer = document(plan(FILE.replace("count: 9", "count: 3"), "--json"))
    after = rule_of(loaded(old.replace("old.yaml", "new.yaml")).agents[0]).short
    assert answer == {
        "format": 1,
        "agents": [
            {
                "name": "a",
                "from": before,
                "to": after,
                "class": "end of a group",
                "changes": [{"path": "aggregate.count", "from": 9, "to": 3, "class": "end of a group"}],
                "open": {
                    "finish": {"groups": 3, "fire": 0, "refused": None},
                    "convert": {"groups": 3, "fire": 2, "refused": None},
                    "rewind": {"groups": 3, "fire": 0, "refused": None},
                    "flush": {"groups": 3, "fire": 3, "refused": None},
                    "drop": {"groups": 3, "fire": 0, "refused": None},
                },
                "now": {"groups": 3, "items": 0, "rows": 0},
                "left": {"groups": 0, "items": 0, "rows": 0},
                "replay": None,
            }
        ],
        "file": [],
        "refused": [],
        "unknown": None,
    }


def test_the_flights_with_another_count_say_what_the_page_shows(plan: Plan, tmp_path: Path) -> None:
    first_agent = flights("127.0.0.1:1").partition("\n  carriers:")[0]
    text = first_agent.replace("http: {port: 0}", "http: false").replace("after: 3s", "after: 1h")
    one, other = tmp_path / "flights.yaml", tmp_path / "new.yaml"
    one.write_text(text)
    log = a_log("flights", "delays", "flights.dead")
    for carrier, number in (("UA", 60), ("AA", 40), ("DL", 70)):
        for _ in range(number):
            log.append("flights", 0, carrier.encode(), b'{"dep_delay": 4, "dest": "SFO"}')
    Driver(loaded(str(one)).agents[0], migrated(str(one)), log, ManualClock(), app="flights").give(0).turns()
    result = plan(text.replace("count: 100 ", "count: 50 "), against=str(one))
    assert result.exit_code == 0
    assert "2 of them fire at once" in result.stdout
    page = (Path(__file__).parents[3] / "docs" / "changing-rules.md").read_text()
    assert result.stdout.rstrip() in page
    assert loaded(str(other)).agents[0].aggregation.count == 50


def test_a_long_value_is_cut(plan: Plan) -> None:
    countries = ", ".join(f'"{number}"' for number in range(40))
    new = FILE.replace("    aggregate:", f"    where: 'country in [{countries}]'\n    aggregate:")
    [line] = [line for line in said(plan(new)) if line.startswith("change where")]
    assert line.endswith("...")
    assert len(line) < 120
