"""Log lines: their shape, what they never hold, and that they never hurt."""

import errno
import fcntl
import json
import logging
import os
import pty
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from sluicegate.streams.observe.logs import configure, masked

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def logged(tmp_path: Any) -> Iterator[Callable[..., Lines]]:
    opened: list[int] = []

    def start(**settings: Any) -> Lines:
        path = tmp_path / "log"
        opened.append(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND))
        configure(descriptor=opened[-1], **settings)
        return lambda: [json.loads(line) for line in path.read_text().splitlines()]

    yield start
    for descriptor in opened:
        os.close(descriptor)


def test_an_event_is_one_json_line(logged: Callable[..., Lines]) -> None:
    lines = logged()
    structlog.get_logger().bind(agent="a").info("partition.claimed", partition=3, text="two\nlines")
    (line,) = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "partition.claimed", "level": "info", "agent": "a", "partition": 3, "text": "two\nlines"}


def test_only_events_of_the_level_and_above_are_written(logged: Callable[..., Lines]) -> None:
    lines = logged(level="warning")
    log = structlog.get_logger()
    log.debug("one")
    log.info("two")
    log.warning("three")
    log.error("four")
    assert [line["event"] for line in lines()] == ["three", "four"]


@pytest.mark.parametrize("field", ["key", "value", "headers", "payload", "record", "document"])
def test_above_debug_no_content_of_records_is_written(logged: Callable[..., Lines], field: str) -> None:
    lines = logged(level="debug")
    structlog.get_logger().warning("dead", **{field: "canary"}, blob=b"canary", offset=7)
    structlog.get_logger().debug("dead", **{field: "canary"})
    above, debug = lines()
    assert "canary" not in json.dumps(above)
    assert (above["offset"], above["blob"]) == (7, "<6 bytes>")
    assert debug[field] == "canary"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "canary"),
        ("token", "canary"),
        ("store", "redis://user:canary@host:6379/0"),
        ("store", "redis://:c@n/ary@host".replace("n/ary", "canary")),
        ("error", "cannot reach postgresql://u:canary@host/db?password=canary: refused"),
        (
            "settings",
            {
                "sasl.password": "canary",
                "ssl.key.pem": "canary",
                "nested": {"client_secret": "canary", "url": "x://u:canary@h"},
            },
        ),
    ],
)
def test_secrets_are_masked_at_every_level(logged: Callable[..., Lines], name: str, value: object) -> None:
    lines = logged(level="debug")
    structlog.get_logger().error("event", **{name: value})
    structlog.get_logger().debug("event", **{name: value})
    for line in lines():
        assert "canary" not in json.dumps(line)
        assert "***" in json.dumps(line)


def test_what_is_no_secret_stays_readable() -> None:
    assert masked("redis://host:6379/0 and /path@x and mail@host") == "redis://host:6379/0 and /path@x and mail@host"
    assert masked("redis://u:p@host:6379/0") == "redis://***@host:6379/0"


def test_an_exception_is_written_with_its_traceback_and_without_secrets(logged: Callable[..., Lines]) -> None:
    lines = logged()
    try:
        secret_local = "canary-local"
        raise RuntimeError(f"redis://u:canary@host {len(secret_local)}")
    except RuntimeError:
        structlog.get_logger().exception("worker.crashed")
    (line,) = lines()
    assert line["level"] == "error"
    assert "RuntimeError: redis://***@host 12" in line["exception"]
    assert "in test_an_exception" in line["exception"]


def test_on_a_terminal_it_is_text_for_people_without_local_variables() -> None:
    master, slave = pty.openpty()
    configure(descriptor=slave)
    try:
        password = "canary"
        raise RuntimeError(len(password))
    except RuntimeError:
        structlog.get_logger().exception("worker.crashed", agent="a")
    shown = os.read(master, 65536).decode()
    assert "worker.crashed" in shown
    assert "{" not in shown
    assert "'canary'" not in shown
    os.close(master)
    os.close(slave)


def test_on_a_terminal_no_text_of_an_event_steers_it() -> None:
    master, slave = pty.openpty()
    configure(descriptor=slave)
    structlog.get_logger().error("worker.waiting", error="topic-\x1b[2J\x9b31m\u202e", others=["\u200b"])
    shown = os.read(master, 65536).decode()
    assert "topic-\\u001b[2J\\u009b31m\\u202e" in shown
    assert not {"\x9b", "\u202e", "\u200b"} & set(shown)
    os.close(master)
    os.close(slave)


def test_drivers_that_log_by_themselves_come_in_the_same_shape(logged: Callable[..., Lines]) -> None:
    lines = logged()
    logging.getLogger("driver").warning("lost %s", "redis://u:canary@host")
    logging.getLogger("driver").info("chatter")
    logging.getLogger("driver").log(35, "odd level")
    assert [(line["event"], line["logger"], line["text"]) for line in lines()] == [
        ("library.logged", "driver", "lost redis://***@host"),
        ("library.logged", "driver", "odd level"),
    ]


def test_a_log_without_a_reader_is_no_error() -> None:
    read, write = os.pipe()
    configure(descriptor=write)
    os.close(read)
    structlog.get_logger().error("event")
    os.close(write)


def test_a_log_whose_reader_stopped_reading_does_not_block() -> None:
    read, write = os.pipe()
    size = fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)
    configure(descriptor=write)
    for _ in range(size // 1000 + 10):
        structlog.get_logger().error("event", text="x" * 1000)
    got = os.read(read, 2 * size).decode()
    assert all(json.loads(line)["event"] == "event" for line in got.splitlines())
    structlog.get_logger().error("again")
    assert json.loads(os.read(read, size))["event"] == "again"
    os.close(read)
    os.close(write)


def test_threads_that_log_at_once_neither_fail_nor_mix_their_lines() -> None:
    read, write = os.pipe()
    configure(descriptor=write)
    failures: list[BaseException] = []
    got: list[str] = []

    def chatter(number: int) -> None:
        try:
            for turn in range(2000):
                structlog.get_logger().info("event", thread=number, turn=turn)
        except BaseException as error:
            failures.append(error)

    def listen() -> None:
        with os.fdopen(read) as lines:
            got.extend(lines)

    threads = [threading.Thread(target=chatter, args=(number,)) for number in range(4)]
    listener = threading.Thread(target=listen)
    for thread in (listener, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    os.close(write)
    listener.join()
    assert failures == []
    assert len(got) > 100
    assert {json.loads(line)["event"] for line in got} == {"event"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, which Linux has")
def test_a_full_disk_is_no_error() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        os.write(full, b"x")
    configure(descriptor=full)
    structlog.get_logger().error("event")
    os.close(full)
