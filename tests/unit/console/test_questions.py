"""The questions of the console: bounded, searched on the server, and without markup."""

from pathlib import Path

import pytest

from sluicegate.streams.console.kept import LEAST, SHARE, KeptValue
from sluicegate.streams.console.wording import PAGE
from tests.unit.console.desk import FILE, HOSTILE, a_console, a_driver
from tests.unit.engine.scene import feed
from tests.waiting import wait_until


def test_open_groups_are_listed_with_what_they_wait_for(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        found = client.ask("groups?agent=a")
        assert [(each["text"], each["count"]) for each in found["groups"]] == [("x", 2), (HOSTILE, 1)]
        [group] = client.ask(f"why?agent=a&place=in/0&key={found['groups'][0]['name']}")["groups"]
        assert (group["values"], "2 of 3, oldest" in group["why"]) == ({"n": 2, "total": 12}, True)
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
        assert {each["text"] for each in first["groups"]}.isdisjoint(each["text"] for each in last["groups"])
        assert [each["text"] for each in client.ask("groups?agent=a&search=KEY-024&order=key")["groups"]] == [
            f"key-024{n}" for n in range(10)
        ]
        assert client.ask("groups?agent=a&search=nothing")["found"] == 0


WRONG = (
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
        status, found, _ = client.send("GET", f"/console/{question}")
        assert (status, list(found)) == (400, ["error"])


def test_too_many_fields_are_refused(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        assert client.send("GET", "/console/groups?" + "&".join(f"a{n}=1" for n in range(50)))[0] == 400


def test_the_other_views_answer_for_an_app_that_has_none_of_it(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path) as client:
        assert client.ask("timeouts") == {"timeouts": [], "count": 0, "again": LEAST}
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
        script = client.send("GET", "/console.js")[1]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in page
    assert "https:" not in page
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")


def test_without_console_there_is_no_page(tmp_path: Path) -> None:
    from sluicegate.streams.cli.opening.files import loaded
    from sluicegate.streams.cli.workers.run import _calls

    (tmp_path / "app.yaml").write_text(FILE.replace(", console: true", ""))
    app = loaded(str(tmp_path / "app.yaml"))
    assert (app.http is not None and app.http.console, _calls(app, lambda app: app)) == (False, None)


def test_reading_takes_a_share_of_the_time_and_no_question_waits_for_it() -> None:
    now, read = [0.0], list[float]()

    def reading() -> float:
        now[0] += 1.0
        read.append(now[0])
        return now[0]

    kept = KeptValue(reading, lambda: now[0])
    assert kept.get() == (1.0, 0.0)
    now[0] = 1.0 + 1 / SHARE - 0.1
    assert kept.get()[0] == 1.0
    now[0] += 0.2
    assert kept.get()[0] == 1.0
    wait_until(lambda: len(read) == 2, what="a reading in a thread")
    wait_until(lambda: kept.get()[0] == read[1], what="its value")
    kept.expire()
    assert kept.get()[0] > read[1]


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
