"""`sluicegate explain`: the offsets behind an output are those that it was made of."""

import json
import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.versions import mac_keys
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a:
    from: in
    key: key
    aggregate:
      count: 4
      timeout: {after: 30s}
      until: {field: ends, equals: true}
      compute: {offsets: {collect: n}, total: {sum: v}}
    dedupe: {id: "id"}
    to: {topic: out}
  h: {from: messages, handler: "tests.unit.engine.handlers:forward", to: {topic: out}}
"""
Explain = Callable[..., Result]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("in", "messages", "out", "app.dead")
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    app = loaded(str(tmp_path / "app.yaml"))
    open_store(app.store, app.folder).migrate()
    return str(tmp_path / "app.yaml")


@pytest.fixture
def explain(file: str) -> Explain:
    return lambda id, *more: CliRunner().invoke(main, ["explain", file, id, *more])


def driver(file: str, log: Log, agent: int = 0) -> Driver:
    app = loaded(file)
    return Driver(app.agents[agent], open_store(app.store, app.folder), log, ManualClock()).give(0)


def fed(file: str, log: Log, seed: int = 1) -> None:
    """Keys, ends, repeats, records that are refused, and times at which groups time out, at random."""
    chance, made = random.Random(seed), driver(file, log)
    for offset in range(120):
        value = {
            "n": offset,
            "key": chance.choice("abc"),
            "v": chance.choice((1, 2, 3, "x")),
            "id": str(chance.randrange(90)),
        }
        if chance.random() < 0.1:
            value["ends"] = True
        log.append("in", 0, b"k", b"{" if chance.random() < 0.05 else json.dumps(value).encode())
        if chance.random() < 0.1:
            made.turns(2)
        if chance.random() < 0.05:
            made.later(31).turns(2)
    made.turns(4).later(31).turns(4)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_offsets_are_those_of_the_result(file: str, log: Log, explain: Explain, seed: int) -> None:
    fed(file, log, seed)
    results = log.topics["out"][0]
    reasons = set()
    for message in results:
        document = json.loads(
            (done := explain(header(message, ("sluicegate-id", "sluicegate-fire")[message.o % 2]), "--json")).stdout
        )
        wanted = json.loads(message.v or b"")
        reasons.add(wanted["reason"])
        shared = {"topic": "in", "partition": 0, "output": f"out/0/{message.o}", "agent": "a", "count": wanted["count"]}
        assert shared.items() <= document.items(), done.stderr
        assert (document["offsets"], document["notes"]) == (wanted["offsets"], [])
    assert reasons == {"count", "timeout", "until"}
    assert len(results) >= 12


def test_in_words_with_what_retention_took(file: str, log: Log, explain: Explain) -> None:
    made = driver(file, log)
    for offset in range(8):
        log.append(
            "in", 0, b"k", json.dumps({"n": offset, "key": "ab"[offset % 2], "v": 1, "id": str(offset)}).encode()
        )
    made.turns(6)
    fire = header(log.topics["out"][0][0], "sluicegate-fire") or ""
    assert "4 records of in/0: 0 2 4 6" in explain(fire).stdout
    log.low["in", 0] = 3
    partly = explain(fire)
    assert (partly.exit_code, "2 records of in/0: 4 6" in partly.stdout) == (0, True), partly.output
    assert "retention took offsets 0 to 2 of in/0" in partly.stderr
    log.low["in", 0] = 100
    gone = json.loads(explain(fire, "--json").stdout)
    assert (gone["offsets"], gone["complete"], gone["notes"]) == ([], False, ["retention took offsets 0 to 6 of in/0"])


def test_what_the_rule_finds_otherwise_now_is_said(file: str, log: Log, explain: Explain, tmp_path: Any) -> None:
    fed(file, log)
    (tmp_path / "app.yaml").write_text(FILE.replace('    dedupe: {id: "id"}\n', ""))
    documents = [
        json.loads(explain(header(message, "sluicegate-id"), "--json").stdout) for message in log.topics["out"][0]
    ]
    assert {document["complete"] for document in documents} == {True, False}
    for document, one in zip(documents, log.topics["out"][0], strict=True):
        assert document["complete"] is (document["offsets"] == json.loads(one.v or b"")["offsets"])
        assert document["complete"] or "duplicates of records that are gone" in document["notes"][0]


def test_a_message_of_a_handler_and_a_dead_letter_have_one_record(file: str, log: Log, explain: Explain) -> None:
    for amount in (1, 2):
        log.append("messages", 0, b"k", json.dumps({"amount": amount}).encode())
    log.append("messages", 0, b"k", b"{")
    driver(file, log, 1).turns(6)
    [_, second], [letter] = log.topics["out"][0], log.topics["app.dead"][0]
    for message, offset in ((second, 1), (letter, 2)):
        document = json.loads(explain(header(message, "sluicegate-id"), "--json").stdout)
        assert (document["topic"], document["offsets"], document["complete"], document["agent"]) == (
            "messages",
            [offset],
            True,
            "h",
        )
    fire = header(second, "sluicegate-fire")
    log.topics["out"] = [[]]
    alone = json.loads(explain(fire, "--json").stdout)
    assert (alone["output"], alone["offsets"]) == (None, [1])


def test_an_id_of_nobody_is_said_to_be_that(file: str, log: Log, explain: Explain) -> None:
    fed(file, log)
    result = explain("2f6b8f0e-0000-5000-8000-000000000000")
    assert (result.exit_code, "no output has the id 2f6b8f0e-" in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("key", ["", "    key: key\n"])
def test_records_of_the_key_that_where_left_out_are_counted(
    file: str, log: Log, explain: Explain, tmp_path: Any, key: str
) -> None:
    """Before, between and after the first and the last record of the group; of another key; and one that fails."""
    text = FILE.replace("    key: key\n", f"    where: v > 1\n{key}").replace('    dedupe: {id: "id"}\n', "")
    (tmp_path / "app.yaml").write_text(text)
    made = driver(file, log)
    for offset, (name, v) in enumerate([("a", 1), *[("a", 2), ("a", 1), ("b", 1), ("a", "x"), ("a", 0)] * 4]):
        log.append("in", 0, name.encode(), json.dumps({"n": offset, "key": name, "v": v}).encode())
    made.turns(6)
    [result] = log.topics["out"][0]
    document = json.loads(explain(header(result, "sluicegate-id"), "--json").stdout)
    assert (document["offsets"], document["left_out"], document["notes"]) == ([1, 6, 11, 16], 6, [])
    shown = explain(header(result, "sluicegate-id")).stdout
    assert "6 records of this key left out by where between the first and the last" in shown
    (tmp_path / "app.yaml").write_text(FILE)
    assert json.loads(explain(header(result, "sluicegate-id"), "--json").stdout)["left_out"] is None


def test_a_message_of_a_handler_has_the_records_that_the_history_names(
    file: str, log: Log, explain: Explain, tmp_path: Any
) -> None:
    text = FILE.replace("    to: {topic: out}\n  h:", "    to: {topic: out}\n    HANDLED\n  h:")
    text = text.replace("total: {sum: v}", "total: {sum: n}").replace('    dedupe: {id: "id"}\n', "")
    handled = text.replace("HANDLED", 'handler: "tests.unit.engine.handlers:result"\n    history: ended')
    (tmp_path / "app.yaml").write_text(handled)
    log.create("ended", 1)
    made = driver(file, log)
    for offset in range(8):
        log.append("in", 0, b"k", json.dumps({"n": offset, "key": "ab"[offset % 2]}).encode())
    made.turns(6)
    [sent, _], [message, _] = log.topics["out"][0], log.topics["ended"][0]
    for name in (header(sent, "sluicegate-id"), header(message, "sluicegate-id"), header(sent, "sluicegate-fire")):
        document = json.loads(explain(name, "--json").stdout)
        assert (document["offsets"], document["count"], document["complete"], document["notes"]) == (
            [0, 2, 4, 6],
            4,
            True,
            [],
        )
    document = json.loads(explain(header(sent, "sluicegate-id"), "--json").stdout)
    assert (document["output"], document["reason"]) == ("out/0/0", "sent")
    (tmp_path / "app.yaml").write_text(handled.replace("    history: ended\n", ""))
    alone = json.loads(explain(header(sent, "sluicegate-id"), "--json").stdout)
    assert (alone["offsets"], alone["complete"]) == ([0], False)


def test_an_agent_before_the_id_narrows_the_search(file: str, log: Log, explain: Explain) -> None:
    fed(file, log)
    id = header(log.topics["out"][0][0], "sluicegate-id")
    whole = explain(id, "--json")
    assert whole.exit_code == 0
    assert explain("a", id, "--json").stdout == whole.stdout
    assert explain("h", id).exit_code == 2
    wrong = explain("nobody", id)
    assert (wrong.exit_code, wrong.stderr) == (2, "sluicegate: there is no agent 'nobody'; the file has a, h\n")
    assert "write one id, and before it one agent or none" in explain("a", id, id).stderr


def test_an_output_without_proof_is_said_to_be_one(file: str, log: Log, explain: Explain) -> None:
    app = loaded(file)
    with closing(open_store(app.store, app.folder)) as store:
        mac_keys.read_or_make(store, "app", lambda: "token")
    fed(file, log)
    document = json.loads(explain(header(log.topics["out"][0][0], "sluicegate-id"), "--json").stdout)
    assert (document["complete"], document["notes"][0][:34]) == (False, "the output has no proof of the app")
