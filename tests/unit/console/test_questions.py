"""The questions of the console: bounded, searched on the server, and without markup."""

import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.streams.agent import App
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.workers.port import RunSystems
from sluicegate.streams.config.sections.fields import STORES
from sluicegate.streams.console.about import PRODUCTS, about
from sluicegate.streams.console.dead_page import DeadShown, dead_counts, dead_facts, letter_counts
from sluicegate.streams.console.kept import AFTER_CHANGE, LEAST, SHARE, KeptValue
from sluicegate.streams.console.wording import PAGE
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe.report import WorkerReport
from sluicegate.streams.operations.dead.dead_changes import DeadListing
from sluicegate.streams.outbox.schedules import arranged
from tests.unit.cli.log_topics import LogTopics
from tests.unit.console.desk import FILE, HOSTILE, a_console, a_driver
from tests.unit.engine.scene import feed
from tests.waiting import wait_until


def test_open_groups_are_listed_with_what_they_wait_for(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        answer = client.ask("groups?agent=a")
        assert [(group["text"], group["count"]) for group in answer["groups"]] == [("x", 2), (HOSTILE, 1)]
        [group] = client.ask(f"why?agent=a&place=in/0&key={answer['groups'][0]['name']}")["groups"]
        assert (group["values"], "2 of 3 records, opened" in group["why"]) == ({"n": 2, "total": 12}, True)
        [partition] = client.ask("partitions")["partitions"]
        assert (partition["owner"], partition["offset"]) == ("member", 3)


def test_many_groups_come_in_pages_and_are_searched_on_the_server(tmp_path: Path) -> None:
    driver, log = a_driver(tmp_path)
    feed(log, *((f"key-{number:04}", 1) for number in range(250)))
    driver.turns(20)
    with a_console(tmp_path) as client:
        first = client.ask("groups?agent=a&order=key")
        assert (len(first["groups"]), first["found"]) == (PAGE, 252)
        last = client.ask("groups?agent=a&order=key&first=200")
        assert len(last["groups"]) == 52
        assert {group["text"] for group in first["groups"]}.isdisjoint(group["text"] for group in last["groups"])
        assert [group["text"] for group in client.ask("groups?agent=a&search=KEY-024&order=key")["groups"]] == [
            f"key-024{n}" for n in range(10)
        ]
        assert client.ask("groups?agent=a&search=nothing")["found"] == 0


def test_groups_are_of_one_partition_overdue_or_in_another_order(tmp_path: Path) -> None:
    driver, log = a_driver(tmp_path)
    feed(log, *((f"key-{number}", 1) for number in range(4)), ("key-3", 1))
    driver.turns(20)
    with a_console(tmp_path) as client:
        ask = lambda query: [group["text"] for group in client.ask(f"groups?agent=a&{query}")["groups"]]  # noqa: E731
        assert ask("order=-key&search=key")[0] == "key-3"
        assert ask("order=count&search=key")[-1] == "key-3"
        assert (len(ask("place=in/0")), ask("place=in/1"), ask("late=yes")) == (6, [], [])


def test_groups_are_chosen_by_their_age_and_by_what_ends_them(tmp_path: Path) -> None:
    a_driver(tmp_path)
    now = [0.0]
    with a_console(tmp_path, lambda: now[0]) as client:
        ask = lambda query: client.ask(f"groups?agent=a&{query}")  # noqa: E731
        assert (ask("older=60")["found"], ask("older=0")["found"]) == (0, 2)
        assert (ask("")["waits"], {group["waits"] for group in ask("")["groups"]}) == (["timeout"], {"timeout"})
        assert (ask("waits=timeout")["found"], ask("waits=count")["found"], ask("waits=count")["open"]) == (2, 0, 2)
        now[0] = 61.0  # the reading is kept, and the groups grow older
        assert ask("older=60")["found"] == 2
        assert client.send("GET", "/console/groups?agent=a&older=soon")[0] == 400


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        ("count: 3, until: {field: ends, equals: true}", "until"),
        ("count: 3", "count"),
        ("count: 3, timeout: {after: 10m, since: last}", "timeout"),
        ("count: 3, until: {field: ends, equals: true}, timeout: {after: 10m, since: last}", "timeout"),
    ],
)
def test_what_ends_a_group_is_a_deadline_or_else_the_records(tmp_path: Path, rule: str, waits: str) -> None:
    a_driver(tmp_path, FILE.replace("count: 3, timeout: {after: 10m, since: first}", rule))
    with a_console(tmp_path) as client:
        assert client.ask("groups?agent=a")["waits"] == [waits]


def test_groups_that_became_overdue_since_the_reading_are_late(tmp_path: Path) -> None:
    a_driver(tmp_path)
    now = [0.0]
    with a_console(tmp_path, lambda: now[0]) as client:
        assert client.ask("groups?agent=a&late=yes")["groups"] == []
        now[0] = 601.0
        late = client.ask("groups?agent=a&late=yes")["groups"]
    assert (len(late), all(result["fires_in"] < 0 for result in late)) == (2, True)


def test_dead_letters_are_filtered_sorted_and_counted_by_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, log = a_driver(tmp_path)
    monkeypatch.setattr(LogTopics, "log", log)
    for key, value in ((b"one", b"bad"), (b"two", b'{"other": 1}'), (b"three", b"worse")):
        log.append("in", 0, key, value)
    driver.turns(6).later(5).turns(4)
    with a_console(tmp_path) as client:
        ask = lambda query: [letter["id"] for letter in client.ask(f"dead?{query}")["dead"]]  # noqa: E731
        assert ask("") == ["in/0/5", "in/0/4", "in/0/3"]
        assert ask("order=-reason")[-1] == "in/0/4"
        assert (ask("search=THREE"), ask("reason=missing-field"), ask("agent=b")) == (["in/0/5"], ["in/0/4"], [])
        assert ask("since=1") == []
        assert client.ask("dead")["reasons"] == ["missing-field", "undecodable"]
        assert client.ask("overview")["dead"] == {"a": 3}


def test_the_overview_has_the_age_of_its_count_and_a_view_that_is_opened_reads_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, log = a_driver(tmp_path)
    monkeypatch.setattr(LogTopics, "log", log)
    now = [0.0]
    with a_console(tmp_path, clock=lambda: now[0]) as client:
        assert client.ask("dead?fresh=yes")["found"] == 0
        log.append("in", 0, b"one", b"bad")
        driver.turns(6).later(5).turns(4)
        now[0] = 1.5
        overview = client.ask("overview")
        assert (overview["dead"], overview["dead_age"]) == ({}, 1.5)
        assert client.ask("dead")["found"] == 0, "a page that stays open gets what was read"
        answer = client.ask("dead?fresh=yes")
        assert (answer["found"], answer["age"]) == (1, 0.0)


def test_records_that_became_dead_letters_after_the_reading_are_counted() -> None:
    def report(pid: int, dead: float) -> WorkerReport:
        counter = ("records_dead", ("undecodable",), dead)
        return WorkerReport("a", 0, pid, 0.0, True, metrics=(counter,))

    nothing = DeadShown(DeadListing([], [], "", 0), [], letter_counts([report(1, 2.0)]))
    facts = dead_facts((nothing, 9.0), letter_counts([report(1, 5.0), report(2, 1.0)]))
    assert facts == {"dead": {}, "dead_age": 9.0, "dead_since": 4}
    assert dead_facts(None, letter_counts([report(1, 5.0)])) == {"dead": None, "dead_age": None, "dead_since": 5}


def test_the_console_reads_the_letters_of_the_embedded_broker_since_the_run_has_started(tmp_path: Path) -> None:
    a_driver(tmp_path, FILE.replace("127.0.0.1:1", "embedded"))
    app, started = loaded(str(tmp_path / "app.yaml")), []
    systems = RunSystems(lambda app: app, started=started)
    with pytest.raises(ConfigurationError, match="the embedded broker answers only its own run"):
        systems.open_topics(app)
    with closing(EmbeddedBroker({"app.dead": 1})) as broker:
        started.append(replace(app, kafka={"bootstrap.servers": broker.bootstrap}))
        assert systems.open_topics(app).places(["app.dead"]) == [("app.dead", 0)]


def test_before_the_first_reading_nothing_is_claimed_to_be_dead_or_not(tmp_path: Path) -> None:
    """Dead letters that cannot be read are not none."""
    with_missing = DeadShown(DeadListing([], [], "the broker is away", 0), [], {})
    assert (dead_counts(None), dead_counts(with_missing)) == (None, None)


def test_the_rule_is_shown_in_the_words_of_the_file(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        rule = client.ask("rule?agent=a")
        assert (yaml.safe_load(rule["text"])["a"]["aggregate"]["count"], rule["version"]) == (3, 0)
        assert "version 7 is not kept" in client.ask("rule?agent=a&version=7")["text"]


def test_the_head_of_the_page_has_no_password() -> None:
    kafka = {"bootstrap.servers": "b:9092", "sasl.password": "s3cret"}
    app = App("shop", "postgresql://ann:s3cret@db.example:5432/shop", (), kafka)
    facts = about(app)
    assert (facts["store"], facts["broker"]) == ("PostgreSQL at db.example:5432", "b:9092")
    assert "s3cret" not in str(facts)
    assert about(replace(app, store="postgresql://ann:s3@cret@db/shop"))["store"] == "PostgreSQL"
    assert about(replace(app, store="mariadb://db.example/shop"))["store"] == "MariaDB at db.example"


def test_each_store_that_a_file_may_name_has_the_name_of_its_product() -> None:
    assert {scheme.partition("+")[0] for scheme in STORES} <= {*PRODUCTS}


def test_schedules_are_listed_with_their_next_time(tmp_path: Path) -> None:
    schedule = "schedules: {nightly: {every: 0 2 * * *, topic: reports, key: sales}}\nagents:"
    a_driver(tmp_path, FILE.replace("agents:", schedule))
    app = loaded(str(tmp_path / "app.yaml"))
    with a_console(tmp_path) as client:
        [before] = client.ask("timeouts")["schedules"]
        with closing(open_store(app.store, app.folder)) as store:
            arranged(store.timeouts, app, datetime(2026, 1, 1, tzinfo=UTC))
        [after] = client.ask("timeouts")["schedules"]
    assert (before["name"], before["due_at"]) == ("nightly", None)
    assert (after["every"], after["due_at"][:16]) == ("0 2 * * *", "2026-01-01T02:00")


def test_a_plan_says_what_the_file_would_change(tmp_path: Path) -> None:
    a_driver(tmp_path)
    file = tmp_path / "app.yaml"
    result = CliRunner().invoke(main, ["deploy", str(file), "--yes", "--no-wait", "--why", "first"])
    assert result.exit_code == 0, result.output
    with a_console(tmp_path) as client:
        assert (client.ask("plan")["agents"], client.ask("plan")["file"]) == ([], [])
    with a_console(tmp_path) as client:
        file.write_text(FILE.replace("count: 3", "count: 2"))
        [plan] = client.ask("plan")["agents"]
        assert [(change["path"], change["from"], change["to"]) for change in plan["changes"]] == [
            ("aggregate.count", 3, 2)
        ]
        assert plan["open"]["convert"]["fire"] == 1
    file.write_text(FILE)
    with a_console(tmp_path) as client:
        file.write_text("app: [")
        assert "app.yaml" in client.ask("plan")["error"]


WRONG = (
    "groups?agent=a&order=none",
    "history?since=now",
    "rule",
    "groups",
    "groups?agent=b",
    "groups?agent=a&first=x",
    "groups?agent=a&first=-1",
    "why?agent=a&key=base64:x&place=in/0",
    "payload?agent=a&id=none",
    f"groups?agent=a&search={'x' * 5000}",
)


@pytest.mark.parametrize("question", WRONG)
def test_a_question_with_wrong_fields_is_refused(tmp_path: Path, question: str) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        status, answer, _ = client.send("GET", f"/console/{question}")
        assert (status, list(answer)) == (400, ["error"])


def test_too_many_fields_are_refused(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        assert client.send("GET", "/console/groups?" + "&".join(f"a{n}=1" for n in range(50)))[0] == 400


def test_the_other_views_answer_for_an_app_that_has_none_of_it(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        assert client.ask("timeouts") == {"schedules": [], "timeouts": [], "count": 0, "again": LEAST}
        assert client.ask("outbox")["rows"] == []
        assert client.ask("progress")["agents"] == [{"agent": "a", "versions": [], "replays": []}]
        assert client.ask("overview")["agents"][0]["name"] == "a"


def test_a_store_in_the_memory_of_the_worker_is_said(tmp_path: Path) -> None:
    from sluicegate.streams.cli.opening.files import loaded
    from sluicegate.streams.cli.workers.port import RunSystems
    from sluicegate.streams.errors import ConfigurationError

    (tmp_path / "app.yaml").write_text(FILE.replace("sqlite:///state.db", "memory://"))
    with pytest.raises(ConfigurationError, match="memory of the worker"):
        RunSystems(lambda app: app).open_store(loaded(str(tmp_path / "app.yaml")))


def test_the_page_may_load_nothing_from_elsewhere_and_runs_no_text(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        _, page, headers = client.send("GET", "/")
        policy = headers["Content-Security-Policy"]
        scripts = [path for path in client.port.calls.files if path.endswith(".js") and "/vendor/" not in path]
        script = "".join(client.send("GET", path)[1] for path in scripts)
    assert {"/console.js", "/core/html.js", "/parts/table.js", "/views/dead.js"} <= {*scripts}
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in page + script
    assert "https:" not in page + script
    for word in ("dangerouslySetInnerHTML", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_without_console_there_is_no_page(tmp_path: Path) -> None:
    from sluicegate.streams.cli.opening.files import loaded
    from sluicegate.streams.cli.workers.run import _calls

    (tmp_path / "app.yaml").write_text(FILE.replace(", console: true", ""))
    app = loaded(str(tmp_path / "app.yaml"))
    assert (app.http is not None and app.http.console, _calls(app, lambda app: app)) == (False, None)


def kept_seconds() -> tuple[KeptValue[float], list[float], list[float]]:
    """A value whose reading takes a second; the clock, which holds one number; and what was read."""
    now, read = [0.0], list[float]()

    def reading() -> float:
        now[0] += 1.0
        read.append(now[0])
        return now[0]

    return KeptValue(reading, lambda: now[0]), now, read


def test_reading_takes_a_share_of_the_time_and_no_question_waits_for_it() -> None:
    kept, now, read = kept_seconds()
    assert kept.get() == (1.0, 0.0)
    now[0] = 1.0 + 1 / SHARE - 0.1
    assert kept.get()[0] == 1.0
    now[0] += 0.2
    assert kept.get()[0] == 1.0
    wait_until(lambda: len(read) == 2, what="a reading in a thread")
    wait_until(lambda: kept.get()[0] == read[1], what="its value")
    kept.expire()
    assert kept.get()[0] > read[1]


def test_after_a_change_a_few_readings_follow_soon() -> None:
    kept, now, read = kept_seconds()
    kept.get()
    kept.expire()
    kept.get()
    for times in range(3, AFTER_CHANGE + 3):
        now[0] += LEAST + 0.1
        kept.get()
        wait_until(lambda times=times: len(read) == times and kept.get()[0] == read[-1], what="a reading in a thread")
    now[0] += LEAST + 0.1
    kept.get()
    assert len(read) == AFTER_CHANGE + 2


def test_a_value_that_takes_long_is_kept_until_it_is_read_again() -> None:
    """A change is seen later, but no answer waits, and one reading follows at once."""
    now, read = [0.0], list[float]()

    def reading() -> float:
        now[0] += LEAST + 1
        read.append(now[0])
        return now[0]

    kept = KeptValue(reading, lambda: now[0])
    kept.get()
    kept.expire()
    assert kept.get()[0] == read[0]
    wait_until(lambda: len(read) == 2, what="the reading after the change")
    wait_until(lambda: kept.get()[0] == read[1], what="its value")


def test_a_caller_waits_for_so_many_seconds_and_the_reading_goes_on() -> None:
    gate = threading.Event()

    def reading() -> str:
        assert gate.wait(30)
        return "read"

    kept = KeptValue(reading, lambda: 0.0)
    assert (kept.within(0.0), kept.within(0.0)) == (None, None)
    gate.set()
    assert kept.within(30) == ("read", 0.0)


def test_who_waits_for_the_first_reading_gets_its_error() -> None:
    fails = [True]

    def reading() -> str:
        if fails[0]:
            raise TimeoutError("away")
        return "read"

    kept = KeptValue(reading, lambda: 0.0)
    with pytest.raises(TimeoutError, match="away"):
        kept.within(30)
    fails[0] = False
    wait_until(lambda: kept.within(30) == ("read", 0.0), what="the value")


def test_a_reading_that_fails_keeps_the_value_and_the_first_one_says_why() -> None:
    now, fails = [0.0], [True]

    def reading() -> str:
        if fails[0]:
            raise RuntimeError("away")
        return "read"

    kept = KeptValue(reading, lambda: now[0])
    with pytest.raises(RuntimeError, match="away"):
        kept.get()
    fails[0] = False
    assert kept.get()[0] == "read"
    fails[0], now[0] = True, LEAST + 1
    assert [kept.get()[0] for _ in range(3)] == ["read"] * 3
