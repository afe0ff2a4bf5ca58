"""A handler of groups with early results is called for each result. Each file with a death at every place."""

from pathlib import Path

import pytest

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
    aggregate: {RULE, compute: {total: {sum: amount}, amounts: {collect: amount}}}
    emit: {EMIT}
    handler: early_handlers:handle
    to: {topic: out}
"""
HANDLER = """\
def handle(value, send):
    if value.get("total") == 3:
        raise ValueError("an unlucky total")
    send({"total": value.get("total"), "final": value["final"], "reason": value["reason"]}, key=value["key"])
"""
RULES = {
    "groups": "timeout: {after: 1m, since: first}",
    "tumbling": "window: {tumbling: 1m}",
    "hopping": "window: {hopping: 2m, every: 1m}",  # each record is in two
    "sessions": "window: {session: 1m}",
}
EMITS = {"every": "every: 10s", "count": "count: 1", "change": "on: change"}
KINDS = {
    "handler": "",
    "slow handler": "    concurrency: 2\n",
    "session": "    session: true\n",
    "history": "    history: ended\n",
    "having": "    having: total != 5\n",
}
SEND = '    - send: {topic: in, key: k, partition: 0, at: "2026-01-01T00:00:%02dZ", value: {amount: %d}}\n'
EARLY = "    - expect: {topic: out, key: k, value: {total: %d, final: false, reason: early}}\n"
LAST = "    - expect: {topic: out, key: k, value: {total: %d, final: true}}\n"


def verdict(folder: Path, rule: str, emit: str, kind: str, steps: str) -> CaseVerdict:
    written(folder, rule, emit, kind, steps)
    file = loaded(folder / "shop.yaml")
    assert file.app is not None, file.problems
    return play_with_crashes(file.app, file.cases[0], lambda done, total: None)


def written(folder: Path, rule: str, emit: str, kind: str, steps: str) -> Path:
    (folder / "early_handlers.py").write_text(HANDLER)
    text = HEAD.replace("RULE", rule).replace("EMIT", emit) + kind + f"tests:\n  early:\n{steps}"
    (folder / "shop.yaml").write_text(text)
    return folder / "shop.yaml"


@pytest.mark.parametrize(
    ("kind", "rule", "emit"),
    [
        *(("handler", "groups", emit) for emit in EMITS),
        *(("handler", rule, "count") for rule in RULES if rule != "groups"),
        *((kind, "groups", "count") for kind in KINDS if kind != "handler"),
    ],
)
def test_a_handler_is_called_for_each_result(kind: str, rule: str, emit: str, tmp_path: Path) -> None:
    totals = [total for total in (2, 5) if (kind, total) != ("having", 5)]
    steps = SEND % (1, 2) + "    - advance: 10s\n" + SEND % (2, 3) + "    - advance: 10s\n    - advance: 1h\n"
    times = 2 if rule == "hopping" else 1
    steps += "".join(EARLY % total * times for total in totals) + ("" if kind == "having" else LAST % 5 * times)
    result = verdict(tmp_path, RULES[rule], EMITS[emit], KINDS[kind], steps)
    assert (result.failure, result.place) == (None, None)


@pytest.mark.parametrize("kind", ["handler", "slow handler", "session"])
def test_an_early_result_at_which_the_handler_fails_is_a_dead_letter_and_the_group_goes_on(
    kind: str, tmp_path: Path
) -> None:
    steps = SEND % (1, 1) + EARLY % 1 + SEND % (2, 2) + SEND % (3, 3) + EARLY % 6
    steps += "    - advance: 1m\n    - expect: {topic: shop.dead, reason: handler-failed}\n" + LAST % 6
    result = verdict(tmp_path, RULES["groups"], EMITS["count"], KINDS[kind] + "    retry: {attempts: 1}\n", steps)
    assert (result.failure, result.place) == (None, None)


def test_a_session_that_becomes_part_of_another_one_calls_the_handler_a_last_time(tmp_path: Path) -> None:
    steps = (SEND % (0, 1)) + EARLY % 1 + (SEND % (50, 4)) + EARLY % 4
    steps = steps.replace("00:00:50", "00:01:30") + (SEND % (45, 1)) + "    - advance: 3h\n"
    steps += "    - expect: {topic: out, key: k, value: {total: null, final: true, reason: merged}}\n"
    steps += EARLY % 6 + LAST % 6
    result = verdict(tmp_path, "window: {session: 1m, grace: 1h}", EMITS["count"], "", steps)
    assert (result.failure, result.place) == (None, None)


def test_an_early_result_without_its_row_calls_no_handler_and_a_session_that_ends_in_another_one_needs_none(
    tmp_path: Path,
) -> None:
    lookup = "    lookup: {item: {table: items, column: id, key: key, fields: [name], missing: dead-letter}}\n"
    path = written(tmp_path, "window: {session: 1m, grace: 1h}", EMITS["count"], lookup, "    - advance: 1s\n")
    with TestDriver(path, partitions=1) as shop:
        begin = shop.clock.time()
        shop.send("in", {"amount": 1}, key="k")
        assert (shop.sent("out"), shop.sent("shop.dead")) == ([], [])
        shop.put_row("items", "k", {"id": "k", "name": "Ann"})
        for seconds in (10, 120, 65):
            shop.send("in", {"amount": 1}, key="k", timestamp=begin + seconds)
        results = [(message.value["total"], message.value["reason"]) for message in shop.sent("out")]
        assert results == [(2, "early"), (1, "early"), (None, "merged"), (4, "early")]
        assert shop.sent("shop.dead") == []
