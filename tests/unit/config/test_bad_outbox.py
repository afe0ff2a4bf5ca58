"""Mistakes in the sections `outbox` and `timeouts`."""

import pytest

from tests.unit.config.files import GOOD, lines, loaded

CASES = [
    (
        GOOD + "outbox: {lanes: 0, order: any, pol: 1s}\n",
        [
            "f.yaml:10:10: outbox.lanes: must be at least 1; write a number in that range",
            "f.yaml:10:20: outbox.order: must be key or none; write one of these words",
            "f.yaml:10:32: outbox.pol: unknown key; did you mean poll?",
        ],
    ),
    (
        GOOD + "outbox: {backoff: 1s, retention: 5}\n",
        [
            "f.yaml:10:10: outbox.backoff: is not a span of durations; write the shortest and the longest, such as "
            "1s..60s",
            "f.yaml:10:23: outbox.retention: is not a duration; write one number and ms, s, m, h or d, such as 30s",
        ],
    ),
    (
        GOOD + "outbox: {order: none, lanes: 4, unhealthy: {age: 1s}}\n",
        [
            "f.yaml:10:23: outbox.lanes: has no meaning with order: none; leave one of them out",
            "f.yaml:10:45: outbox.unhealthy.age: is below outbox.degraded.age; raise it, or lower the other",
        ],
    ),
    (
        GOOD + "outbox: {lease: 500ms}\n",
        [
            "f.yaml:10:10: outbox.lease: is below 1 s: a lane would be lost while its rows are under way; "
            "write 30s, or another time that a process may stand still"
        ],
    ),
    (
        GOOD + "outbox: true\n",
        ["f.yaml:10:1: outbox: must be a mapping; write {retention: 1h, poll: 1s} or the like, or false"],
    ),
    (
        GOOD + "timeouts: {batch: 0, lease: 0s}\n",
        [
            "f.yaml:10:12: timeouts.batch: must be at least 1; write a number in that range",
            "f.yaml:10:22: timeouts.lease: is out of range; write more than 0 and at most 3650d",
        ],
    ),
    (
        GOOD.replace("  a:\n", "  dispatcher:\n"),
        [
            "f.yaml:6:3: agents.dispatcher: is the name of the process that sends the outbox's rows; give the agent "
            "another name"
        ],
    ),
    (GOOD + "outbox: ${O}\n", ["f.yaml:10:1: outbox: ${O} is not set; set O, or write ${O:-default}"]),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_mistake_is_named(tmp_path, text, expected):
    assert lines(loaded(tmp_path, text).problems, tmp_path) == expected
