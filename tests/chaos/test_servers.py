"""The store or the broker dies and comes back; a worker's bytes reach the store after somebody else took over."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.chaos.scene import SESSION, Scene
from tests.chaos.test_cells import overtaken
from tests.chaos.verdict import Verdict
from tests.servers import Kafka, Mariadb, MongoDB, Postgres, Program, Proxy, Server, Valkey
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
OwnServer = Callable[..., Server]
RECOVERY = 5.0
RESTART = SESSION / 1000 + 3.0


@pytest.mark.parametrize("kind", [Valkey, Postgres, Mariadb, MongoDB])
def test_a_killed_store_is_used_again_within_five_seconds_of_its_return(
    scene: MakeScene, own_server: OwnServer, kind: type[Program]
) -> None:
    server = own_server(kind)
    app = scene(server.url)
    worker = app.run()
    app.feed.start()
    app.flowing()
    server.kill9()
    # the driver waits 10 s for its server, and partitions take turns
    worker.wait("partition.unavailable", 2, timeout=60)
    server.restart()
    back = time.monotonic()
    app.catch_up()
    app.flowing(1)
    assert time.monotonic() - back < RECOVERY
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert worker.events("worker.started") == worker.events("worker.started", pid=worker.pid), (
        "the worker was started anew"
    )


def test_results_come_again_within_the_session_timeout_and_three_seconds_after_a_kill(scene: MakeScene) -> None:
    app = scene("sqlite")
    worker = app.run()
    app.feed.start()
    app.flowing()
    worker.kill_child()
    killed = time.monotonic()
    app.catch_up()
    app.flowing(1)
    assert time.monotonic() - killed < RESTART
    verdict = app.verdict()
    assert verdict.clean, verdict


def test_a_killed_broker_is_waited_for_and_nothing_is_lost(scene: MakeScene, own_server: OwnServer) -> None:
    server = own_server(Kafka)
    app = scene("sqlite", bootstrap=server.url, kafka={"reconnect.backoff.max.ms": 500})
    app.run()
    app.feed.start()
    app.flowing()
    server.kill9()
    server.restart()
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict


def late_bytes(app: Scene, link: Proxy, without: str = "") -> Verdict:
    """A worker's commit is held on its way; the worker stops, another takes over and goes on; then the bytes arrive,
    and a third goes on from what the store holds. (The twin is without claim checks, too: those would halt what the
    bytes damaged.)"""
    healthy = app.run("healthy", without=without)
    app.feed.start()
    app.flowing()
    slow = app.run("slow", without=without, store=link.url)
    slow.wait("partition.claimed")
    app.flowing()
    link.hold("to-server", b"EVALSHA")
    link.wait_held(30)
    os.kill(slow.pid, signal.SIGSTOP)
    overtaken(app, healthy)
    link.release()
    healthy.kill9()
    heir = app.run("heir", without=without)
    os.kill(slow.pid, signal.SIGCONT)
    heir.wait("worker.running")
    if not without:
        app.flowing()
    return app.verdict(settle=20.0 if without else 90.0)


def test_a_commit_that_arrives_after_a_takeover_changes_nothing(
    scene: MakeScene, redis_url: str, proxy: Callable[[str], Proxy]
) -> None:
    verdict = late_bytes(scene("redis"), proxy(redis_url))
    assert verdict.clean, verdict


def test_the_judge_finds_what_a_late_commit_does_without_a_fence(
    scene: MakeScene, redis_url: str, proxy: Callable[[str], Proxy]
) -> None:
    """The race must be met: the late bytes have to fall between two steps of the heir, so it is provoked up to three
    times."""
    for _ in range(3):
        verdict = late_bytes(scene("redis", count=1), proxy(redis_url), without="fence,claim-checks")
        if verdict.duplicate:
            return
    raise AssertionError(f"the judge found nothing: {verdict}")


def lose_replies(link: Proxy) -> None:
    """Until some are lost, and with them the connection."""
    before = link.dropped
    link.drop_replies()
    wait_until(lambda: link.dropped > before, 30, "a lost reply")
    link.reset()
    link.release()


def test_commits_whose_replies_are_lost_on_the_wire_take_effect_once(
    scene: MakeScene, redis_url: str, proxy: Callable[[str], Proxy]
) -> None:
    link = proxy(redis_url)
    app = scene(link.url)
    worker = app.run()
    app.feed.start()
    for _ in range(3):
        app.flowing()
        lose_replies(link)
    worker.wait("partition.unavailable", 3)
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
