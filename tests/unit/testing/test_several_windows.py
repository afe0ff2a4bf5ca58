"""Records in several windows, and windows with several results, together with what names a group: handlers, parked
groups, lookups and the history. Each with a death at every place."""

from pathlib import Path

import pytest

from sluicegate.streams.handlers import handling, sealed
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import CaseVerdict, play_with_crashes

HEAD = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
dead_letters: shop.dead
agents:
  a:
    from: in
    aggregate:
      window: {WINDOW, time: at}
      compute: {total: {sum: amount}}
"""
SEND = '    - send: {topic: in, key: k, partition: 0, value: {amount: %d, at: "2026-01-01T00:%sZ"}}\n'
HOPPING = "hopping: 2m, every: 1m", SEND % (1, "00:10") + SEND % (2, "10:10") + "    - advance: 1h\n", (1, 1, 2, 2)
"""Two windows begin with the first record and close together, and two with the second one."""
AMENDED = (
    "tumbling: 1m, late: {amend: 1h, every: 5s}",
    SEND % (1, "00:10") + SEND % (2, "01:10") + SEND % (4, "00:20") + "    - advance: 10s\n    - advance: 1h\n",
    (1, 5, 2),
)
"""The record of 00:20 is late for its window: the result is sent again."""
WINDOWS = {"hopping": HOPPING, "amended": AMENDED}
HANDLER = """\
def handle(value, send):
    send({"total": value["total"], "revision": value["window"]["revision"]}, key=value["key"])
"""
LOOKUP = "    lookup: {item: {table: items, column: id, key: key, fields: [name]}}\n    to: {topic: out}\n"
ROW = "    - row: {table: items, key: k, value: {name: Ann}}\n"
KINDS = {
    "handler": "    handler: several_windows:handle\n    to: {topic: out}\n",
    "slow handler": "    handler: several_windows:handle\n    to: {topic: out}\n    concurrency: 2\n",
    "session": "    handler: several_windows:handle\n    to: {topic: out}\n    session: true\n",
    "lookup": LOOKUP,
    "history": "    to: {topic: out}\n    history: ended\n",
}


def verdict(folder: Path, kind: str, window: str, steps: str) -> CaseVerdict:
    (folder / "several_windows.py").write_text(HANDLER)
    (folder / "shop.yaml").write_text(
        HEAD.replace("WINDOW", window) + KINDS.get(kind, kind) + f"tests:\n  windows:\n{steps}"
    )
    file = loaded(folder / "shop.yaml")
    assert file.app is not None, file.problems
    return play_with_crashes(file.app, file.cases[0], lambda done, total: None)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_several_windows_go_together_with(kind: str, window: str, tmp_path: Path) -> None:
    text, sent, totals = WINDOWS[window]
    row = ROW if kind == "lookup" else ""
    named = "item: {name: Ann}, " if kind == "lookup" else ""
    results = "".join(f"    - expect: {{topic: out, key: k, value: {{{named}total: {total}}}}}\n" for total in totals)
    result = verdict(tmp_path, kind, text, row + sent + results)
    assert (result.failure, result.place) == (None, None)


@pytest.mark.parametrize("window", WINDOWS)
def test_the_history_tells_of_each_window_that_has_no_result(window: str, tmp_path: Path) -> None:
    text, sent, totals = WINDOWS[window]
    ends = "    - expect: {topic: ended, key: k, value: {reason: window}}\n" * len(totals)
    result = verdict(tmp_path, KINDS["history"] + "    having: total > 100\n", text, sent + ends)
    assert (result.failure, result.place) == (None, None)


def fires(folder: Path, window: str) -> list[str | None]:
    """The ids under which a handler sent something."""
    verdict(folder, "handler", window, "    - advance: 1s\n")
    with TestDriver(folder / "shop.yaml", partitions=1) as shop:
        for amount, time in ((1, "00:10"), (2, "10:10"), (4, "00:20")):
            shop.send("in", {"amount": amount, "at": f"2026-01-01T00:{time}Z"}, key="k")
        shop.advance(3_600)
        return [message.headers["sluicegate-fire"] for message in shop.sent("out")]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_handler_has_an_id_for_each_window_and_revision(window: str, tmp_path: Path) -> None:
    ids = fires(tmp_path, WINDOWS[window][0])
    assert len({*ids}) == len(ids) == len(WINDOWS[window][2])


@pytest.mark.parametrize("window", WINDOWS)
def test_twin_an_id_of_the_first_record_alone_is_given_twice(
    window: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handling, "number_of", lambda item: item.first)
    ids = fires(tmp_path, WINDOWS[window][0])
    assert len({*ids}) < len(ids)


def test_twin_slow_handlers_that_know_groups_by_their_first_record_alone_lose_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "number_of", lambda item: item.first)
    with pytest.raises(AssertionError):
        test_several_windows_go_together_with("slow handler", "hopping", tmp_path)


def test_open_groups_are_windows_and_no_panes(tmp_path: Path) -> None:
    verdict(tmp_path, "history", WINDOWS["hopping"][0], "    - advance: 1s\n")
    with TestDriver(tmp_path / "shop.yaml", partitions=1) as shop:
        for amount, time in ((1, "00:10"), (2, "01:10")):
            shop.send("in", {"amount": amount, "at": f"2026-01-01T00:{time}Z"}, key="k")
        [first, second] = shop.groups("a")
        assert [(group.count, group.values["total"], group.window) for group in (first, second)] == [
            (2, 3, ("2026-01-01T00:00:00.000Z", "2026-01-01T00:02:00.000Z")),
            (1, 2, ("2026-01-01T00:01:00.000Z", "2026-01-01T00:03:00.000Z")),
        ]
        shop.sent("out")
        shop.advance("1h")
        assert [message.value["total"] for message in shop.sent("out")] == [1, 3, 2]
