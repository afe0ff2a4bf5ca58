"""Windows under the test driver, together with what else an agent may have: each with a death at every place."""

from pathlib import Path

import pytest

from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
dead_letters: shop.dead
agents:
  a:
    from: in
    aggregate:
      window: {tumbling: 1m, time: at}
      compute: {total: {sum: amount}}
"""
TESTS = """\
tests:
  windows close by records and by silence:
    - send: {topic: in, key: k, partition: 0, value: {amount: 1, at: "2026-01-01T00:00:10Z"}}
    - send: {topic: in, key: k, partition: 0, value: {amount: 2, at: "2026-01-01T00:01:10Z"}}
    - expect: {topic: out, key: k, FIRST}
    - advance: 3m
    - expect: {topic: out, key: k, SECOND}
"""
RESULTS = ("value: {total: 1}, reason: window", "value: {total: 2}, reason: window")
KINDS = {
    "plain": ("    to: {topic: out}\n", RESULTS),
    "transactional": ("    to: {topic: out}\n    delivery: transactional\n", RESULTS),
    "dedupe": ("    to: {topic: out}\n    dedupe: {id: amount}\n", RESULTS),
    "where": ("    to: {topic: out}\n    where: amount > 0\n", RESULTS),
    "having": ("    to: {topic: out}\n    having: window.revision == 1\n", RESULTS),
    "routes": (
        '    to:\n      - {topic: out, where: window.closed_by == "event"}\n'
        "      - {topic: out, select: {total: total, from: window.start}}\n",
        ("value: {total: 1}", 'value: {total: 2, from: "2026-01-01T00:01:00.000Z"}'),
    ),
    "avro": ("    to: {topic: out, format: avro}\n", RESULTS),
    "history": ("    to: {topic: out}\n    history: ended\n", RESULTS),
}


@pytest.mark.parametrize("kind", KINDS)
def test_windows_go_together_with(kind: str, tmp_path: Path) -> None:
    more, (first, second) = KINDS[kind]
    tests = TESTS.replace("FIRST", first).replace("SECOND", second)
    (tmp_path / "shop.yaml").write_text(HEAD + more + tests)
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.mark.parametrize("more", ["", "    concurrency: 2\n", "    session: true\n"])
def test_a_handler_gets_the_window(more: str, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        f"{HEAD}    handler: window_handlers{len(more)}:handle\n    to: {{topic: out}}\n{more}"
        + TESTS.replace("FIRST", "value: {total: 1, by: event}").replace("SECOND", "value: {total: 2, by: idle}")
    )
    (tmp_path / f"window_handlers{len(more)}.py").write_text(
        "def handle(value, send):\n"
        '    send({"total": value["total"], "by": value["window"]["closed_by"]}, key=value["key"])\n'
    )
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_open_groups_name_their_window(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(HEAD + "    to: {topic: out}\n")
    with TestDriver(tmp_path / "shop.yaml", partitions=1) as shop:
        shop.send("in", {"amount": 1, "at": "2026-01-01T00:00:10Z"}, key="k")
        [group] = shop.groups("a")
        assert (group.key, group.count, group.window) == (
            "k",
            1,
            ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z"),
        )
        assert group.due_in == 120.0
