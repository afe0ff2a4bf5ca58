"""`sluicegate dead retry` of completed groups of `scope: shared`: the group goes into the shared buffer, once, and a
worker decides again what becomes of it."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from sluicegate.streams import failpoints
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.watching import progress
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.operations.dead import dead_shared
from sluicegate.streams.reducers import BEYOND
from sluicegate.streams.shared.shared_records import buffer_name
from sluicegate.streams.testing.deaths import Deaths
from sluicegate.streams.testing.dispatch import Dispatch
from sluicegate.streams.testing.log import LogProducer
from tests.mutation.twins import without
from tests.unit.cli.dead_scene import Scene, without_tracebacks
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, distinct, header
from tests.unit.engine.scene import Killed, a_log
from tests.waiting import wait_until

HEAD = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  sums:
    from: in
    scope: shared
"""
PARTITIONS = 3
COUNT = "    aggregate: {count: 6, compute: {n: count, total: {sum: amount}}}\n"
ROWS = COUNT.replace("count: 6", "count: 6, max_bytes: 4MB").replace("n: count", "n: count, rows: collect")
TO = "    to: {topic: out}\n"
ROUTES = "    to:\n      - {topic: out, where: total > 100}\n"
HANDLER = "    handler: totals:FUNCTION\n    retry: {attempts: 2, backoff: 1ms..1ms}\n"
MODULE = """\
calls = []


def remote(batch, rows, send, id):
    calls.append((id, [row["id"] for row in rows]))
    with open("mended"):
        send({"total": batch.value["total"], "ids": [row["id"] for row in rows]})


def choosy(rows, send):
    from sluicegate import BadItems

    if len(rows) == 6:
        raise BadItems({1: "no", 4: "no"})
    with open("mended"):
        send({"ids": [row["id"] for row in rows]})
"""


class SharedScene(Scene):
    """With a dispatcher. The store's clock is the machine's."""

    def started(self) -> Driver:
        producer = LogProducer(self.log)
        self.dispatch = Dispatch(self.store, producer, self.clock, Deaths())
        return Driver(self.app.agents[0], self.store, self.log, self.clock, "finish").give(*range(PARTITIONS))

    def later(self, times: int = 12) -> None:
        for _ in range(times):
            self.driver.later(2).turns(4)
            self.dispatch.turn()

    def mend(self, text: str = "") -> None:
        (self.folder / "mended").write_text("")
        if text:
            self.write(HEAD + text)
            self.restart()
            self.later(3)

    def groups(self) -> Result:
        return CliRunner().invoke(main, ["groups", "ls", str(self.folder / "app.yaml"), "sums", "--json"])

    def buffered(self) -> int:
        return self.store.buffer.count(buffer_name("app", "sums"))

    def wait_for(self, letters: int) -> list[dict[str, Any]]:
        def seen() -> bool:
            self.later(1)
            return len(self.listed()) >= letters

        wait_until(seen, 20, f"{letters} dead letters")
        return self.listed()


def feed(made: Scene, amount: Any, text: str = "", key: bytes = b"k", count: int = 6) -> None:
    """Two of each partition, one after the other."""
    for number in range(count):
        value = {"amount": amount, "id": number, "text": text}
        made.log.append("in", number // 2, key, json.dumps(value).encode())


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], SharedScene]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "totals.py").write_text(MODULE)
    monkeypatch.setattr(LogTopics, "log", a_log("in", "out", "first", "app.dead", partitions=PARTITIONS))
    for module in (letters, progress):
        monkeypatch.setattr(module, "BrokerTopics", LogTopics, raising=False)
    with without_tracebacks():
        yield lambda text: SharedScene(tmp_path, HEAD + text)
    sys.modules.pop("totals", None)


class Broken(NamedTuple):
    """A file that makes a dead letter of six records, its mended form, what the letter says, and the results."""

    name: str
    broken: str
    mended: str
    says: tuple[str, str]
    results: list[dict[str, Any]]
    amount: Any = 7


BROKEN = [
    Broken(
        "timeout",
        (late := COUNT.replace("count: 6", "count: 9, timeout: {after: 300ms}, on_timeout: dead-letter") + TO),
        late,
        ("aggregate", "timeout"),
        [{"n": 6, "total": 42, "reason": "timeout"}],
    ),
    Broken(
        "having",
        f"{COUNT}    having: total / (n - 6) > 1\n{TO}",
        f"{COUNT}    having: total / n > 1\n{TO}",
        ("expression", "expression-failed"),
        [{"n": 6, "total": 42, "reason": "count"}],
    ),
    Broken(
        "having that lets nothing pass",
        f"{COUNT}    having: total / (n - 6) > 1\n{TO}",
        f"{COUNT}    having: total < 1\n{TO}",
        ("expression", "expression-failed"),
        [],
    ),
    Broken(
        "select",
        COUNT + "    to: {topic: out, select: {mean: total / (n - 6)}}\n",
        COUNT + "    to: {topic: out, select: {mean: total / n}}\n",
        ("expression", "expression-failed"),
        [{"mean": 7}],
    ),
    Broken(
        "routes",
        COUNT + ROUTES,
        COUNT + ROUTES.replace("100", "10"),
        ("expression", "unrouted"),
        [{"n": 6, "total": 42}],
    ),
    Broken(
        "sum",
        COUNT + TO,
        COUNT.replace("sum: amount", "max: amount") + TO,
        ("aggregate", "overflow"),
        [{"n": 6, "total": 1.5e308}],
        1.5e308,
    ),
    Broken("size", ROWS + TO, COUNT + TO, ("produce", "too-large"), [{"n": 6, "total": 42}]),
    Broken(
        "first and last",
        ROWS + TO,
        COUNT.replace("n: count", "n: count, a: {first: id}, z: {last: id}") + TO,
        ("produce", "too-large"),
        [{"n": 6, "total": 42, "a": 0, "z": 5}],
    ),
]


def broken(made: SharedScene, case: Broken) -> dict[str, Any]:
    feed(made, case.amount, "x" * 200_000 if case.says[1] == "too-large" else "")
    [letter] = made.wait_for(1)
    assert (letter["kind"], letter["stage"], letter["reason"]) == ("group", *case.says)
    return letter


@pytest.mark.parametrize("case", BROKEN, ids=[case.name for case in BROKEN])
def test_what_becomes_of_the_group_is_decided_again_once(case: Broken, scene: Callable[[str], SharedScene]) -> None:
    made = scene(case.broken)
    letter = broken(made, case)
    made.mend(case.mended)
    done = made.dead("retry", "sums", "--all")
    assert (done.exit_code, "1 group to be " in done.stdout) == (0, True), done.output
    made.later()
    again = made.dead("retry", "sums", letter["id"])
    assert (again.exit_code, "was retried before" in again.stderr) == (5, True), again.output
    again = made.dead("retry", "sums", "--all")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "nothing was sent\n", ""), again.output
    made.restart()
    made.later()
    sent = distinct(made.log, "out")
    assert [
        {name: output[name] for name in case.results[0]} for output in made.outputs() if case.results
    ] == case.results
    [first] = distinct(made.log, "app.dead")
    for name in ("sluicegate-fire", "sluicegate-first", "sluicegate-last"):
        assert [header(message, name) for message in sent] == [header(first, name)] * len(sent)
    assert [letter["retried"] for letter in made.listed()] == [True]
    assert made.buffered() == 0


def test_the_handler_gets_the_messages_of_all_partitions_again_once(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + HANDLER.replace("FUNCTION", "remote") + TO)
    feed(made, 7)
    [letter] = made.wait_for(1)
    assert (letter["stage"], letter["reason"]) == ("handler", "handler-failed")
    made.mend()
    assert made.dead("retry", "sums", letter["id"]).exit_code == 0
    assert (made.buffered(), json.loads(made.groups().stdout)["groups"]) == (1, [])
    made.later()
    assert made.outputs() == [{"total": 42, "ids": [0, 1, 2, 3, 4, 5]}]
    calls = sys.modules["totals"].calls
    assert {id for id, _ in calls} == {header(distinct(made.log, "app.dead")[0], "sluicegate-fire")}
    assert [ids for _, ids in calls] == [[0, 1, 2, 3, 4, 5]] * 3
    refused = made.dead("retry", "sums", letter["id"])
    assert (refused.exit_code, len(calls)) == (5, 3)
    assert made.dead("retry", "sums", letter["id"], "--again").exit_code == 0
    made.later()
    assert len(made.outputs()) == 2


def test_one_that_fails_again_is_another_dead_letter_that_can_be_retried(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + HANDLER.replace("FUNCTION", "remote") + TO)
    feed(made, 7)
    made.wait_for(1)
    assert made.dead("retry", "sums", "--all").exit_code == 0
    first, second = made.wait_for(2)
    assert (first["id"], first["retried"], second["retried"]) == (second["id"], True, False)
    made.mend()
    assert made.dead("retry", "sums", second["letter"]).exit_code == 0
    made.later()
    assert [output["total"] for output in made.outputs()] == [42]


def test_a_result_that_is_too_large_again_still_names_its_messages(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + TO)
    broken(made, BROKEN[-1])
    assert made.dead("retry", "sums", "--all").exit_code == 0
    _, second = made.wait_for(2)
    made.mend(BROKEN[-1].mended)
    assert made.dead("retry", "sums", second["letter"]).exit_code == 0
    made.later()
    assert [(output["a"], output["z"]) for output in made.outputs()] == [(0, 5)]


def test_the_messages_are_read_again_in_the_order_of_the_group(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + TO)
    for number, place in enumerate((2, 0, 2, 0, 1, 0)):
        value = {"amount": 7, "id": number, "text": "x" * 200_000}
        made.log.append("in", place, b"k", json.dumps(value).encode())
        made.later(1)
    made.wait_for(1)
    made.mend(BROKEN[-1].mended)
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    assert [(output["a"], output["z"]) for output in made.outputs()] == [(0, 5)]


def test_messages_that_left_the_group_stay_out(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + HANDLER.replace("FUNCTION", "choosy") + TO)
    feed(made, 7)
    dead_letters = made.wait_for(3)
    made.mend()
    [group] = [dead_letter["id"] for dead_letter in dead_letters if dead_letter["kind"] == "group"]
    assert made.dead("retry", "sums", group).exit_code == 0
    made.later()
    assert made.outputs() == [{"ids": [0, 2, 3, 5]}]


def test_what_cannot_be_repaired_is_named_with_its_reason(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + TO)
    broken(made, BROKEN[-1])
    feed(made, 1.5e308)
    made.wait_for(2)
    made.log.low["in", 0] = 1
    done = made.dead("retry", "sums", "--all", "--json")
    assert (done.exit_code, json.loads(done.stdout)["groups"]) == (4, 0)
    reasons = {letter["why"] for letter in json.loads(done.stdout)["left_out"]}
    assert reasons == {
        "it is a completed group: its letter lacks computed fields, and the topics have 5 of its 6 messages under the "
        "rule of the file",
        f"it is a completed group: its messages still give total {BEYOND}",
    }


def test_a_letter_that_names_another_topic_reads_nothing_of_it(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + TO)
    broken(made, BROKEN[-1])
    [letter] = distinct(made.log, "app.dead")
    forged = [
        (name, b'[["out",0,[0,1,1,1,1,1]]]' if name == "sluicegate-dead-members" else value)
        for name, value in letter.h or ()
    ]
    letter.h[:] = forged  # type: ignore[index]
    done = made.dead("retry", "sums", "--all")
    assert (done.exit_code, "names messages of out, which is not an input of agent sums" in done.stderr) == (4, True)
    letter.h[:] = [header for header in forged if header[0] != "sluicegate-dead-members"]  # type: ignore[index]
    done = made.dead("retry", "sums", "--all")
    assert "holds neither a document nor the places of its messages" in done.stderr


def killed_at(point: str) -> Callable[[str], None]:
    def reach(name: str) -> None:
        if name == point:
            raise Killed

    return reach


def retries_that_are_killed(made: SharedScene) -> None:
    """Each is given again as it was; in between the worker ends what is in the buffer."""
    for point in ("group-asked", "group-inserted", "group-kept"):
        with failpoints.watched(killed_at(point)), pytest.raises(Killed):
            made.dead("retry", "sums", "--all")
        wait_until(lambda: made.later(3) is None and made.buffered() == 0, 20, "the buffer is empty")


def test_a_command_that_is_killed_anywhere_is_finished_by_the_same_command(scene: Callable[[str], SharedScene]) -> None:
    made = scene(ROWS + HANDLER.replace("FUNCTION", "remote") + TO)
    feed(made, 7)
    made.wait_for(1)
    made.mend()
    retries_that_are_killed(made)
    assert made.dead("retry", "sums", "--all").exit_code == 5
    assert len(made.outputs()) == 1
    assert made.listed()[0]["retried"]


def test_without_the_watermark_a_command_that_was_killed_puts_the_group_there_again(
    scene: Callable[[str], SharedScene],
) -> None:
    made = scene(ROWS + HANDLER.replace("FUNCTION", "remote") + TO)
    feed(made, 7)
    made.wait_for(1)
    made.mend()
    with without("shared-retry-once"):
        retries_that_are_killed(made)
    assert len(sys.modules["totals"].calls) > 3


def test_retries_that_the_journal_forgot_are_still_known(
    scene: Callable[[str], SharedScene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(COUNT + ROUTES)
    broken(made, BROKEN[4])
    made.mend(BROKEN[4].mended)
    assert made.dead("retry", "sums", "--all").exit_code == 0
    made.later()
    with monkeypatch.context() as patched:
        patched.setattr(dead_shared.journal, "notes", lambda store, app: [])
        assert made.dead("retry", "sums", "--all").exit_code == 5
        made.later()
        assert len(made.outputs()) == 1
        assert made.dead("retry", "sums", "--all", "--again").exit_code == 0
    made.later()
    assert [output["total"] for output in made.outputs()] == [42, 42]


def test_a_worker_that_got_no_answer_leaves_one_result(
    scene: Callable[[str], SharedScene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(COUNT + ROUTES)
    broken(made, BROKEN[4])
    made.mend(BROKEN[4].mended)
    assert made.dead("retry", "sums", "--all").exit_code == 0
    buffer = made.store.buffer
    complete, fails = type(buffer).complete_all, ["after", "before"]

    def unanswered(*arguments: Any) -> Any:
        when = fails.pop() if fails else ""
        if when == "before":
            raise PersistenceError("no answer")
        done = complete(*arguments)
        if when:
            raise PersistenceError("no answer")
        return done

    monkeypatch.setattr(type(buffer), "complete_all", unanswered)
    made.later(40)
    assert fails == []
    assert [output["total"] for output in made.outputs()] == [42]


def test_a_group_at_which_the_engine_fails_is_a_dead_letter_again(
    scene: Callable[[str], SharedScene], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(COUNT + ROUTES)
    broken(made, BROKEN[4])
    made.mend(BROKEN[4].mended)
    with monkeypatch.context() as patched:

        def fails(*_: object) -> None:
            raise RuntimeError("a defect")

        patched.setattr("sluicegate.streams.shared.shared_firing.decided", fails)
        assert made.dead("retry", "sums", "--all").exit_code == 0
        _, second = made.wait_for(2)
    assert (second["stage"], second["reason"], second["retried"]) == ("crash", "crash", False)
    assert made.dead("retry", "sums", second["letter"]).exit_code == 0
    made.later()
    assert [output["total"] for output in made.outputs()] == [42]
