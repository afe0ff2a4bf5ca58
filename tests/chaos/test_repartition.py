"""`repartition:` on the real broker: groups by a field, exact across partitions, although the half that re-keys is
killed."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable

from confluent_kafka import Producer

from tests.chaos.scene import Scene
from tests.chaos.verdict import distinct, good
from tests.chaos.worker import Worker

MakeScene = Callable[..., Scene]
PARTITIONS, PEOPLE = 3, 7


def rekeyed(scene: MakeScene) -> Scene:
    """Payments of the same person come in all partitions, under keys that say nothing."""
    app = scene("sqlite", partitions=PARTITIONS, effect=lambda record: (0, json.loads(record.value or b"")["count"]))
    compute = {"total": {"sum": "v"}, "all": {"collect": "v"}}
    app.spec["agents"] = {
        "sums": {
            "from": f"{app.name}.in",
            "key": "who",
            "repartition": f"{app.name}.by-who",
            "to": {"topic": f"{app.name}.out"},
            "aggregate": {"count": 5, "timeout": {"after": "1s"}, "compute": compute},
        }
    }
    return app


def pay(app: Scene, begin: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": app.bootstrap, "linger.ms": 1, "log_level": 0})
    for number in range(begin, end):
        value = json.dumps({"who": f"p{number % PEOPLE}", "v": number}).encode() if number % 50 else b"{no json"
        producer.produce(f"{app.name}.in", value, b"key%d" % number, number % PARTITIONS)
    assert producer.flush(30) == 0


def made(app: Scene, worker: Worker) -> None:
    """The topic between the halves is there, and must be read to its end, too."""
    worker.wait("topics.made", topics=[f"{app.name}.by-who"])
    worker.wait("partition.claimed", PARTITIONS, agent="sums")
    app.tap.follow(f"{app.name}.by-who")
    app.between.append("by-who")


def wrong(app: Scene) -> dict[str, Counter[tuple[str, int]]]:
    """Payments that are in no group of their person, and in more than one; bad ones without a dead letter."""
    app.end(repeats=True)
    paid = [json.loads(record.value or b"") for record in app.records("in") if good(record)]
    groups = [json.loads(record.value or b"") for record in distinct(app.records("out"))]
    wanted = Counter((payment["who"], payment["v"]) for payment in paid)
    grouped = Counter((group["key"], number) for group in groups for number in group["all"])
    assert all(group["count"] == len(group["all"]) and group["total"] == sum(group["all"]) for group in groups)
    bad = Counter(("dead", record.offset) for record in app.records("in") if not good(record))
    letters = Counter(
        ("dead", int(message.headers["sluicegate-dead-offset"])) for message in distinct(app.records("dead"))
    )
    return {"lost": (wanted - grouped) + (bad - letters), "duplicate": (grouped - wanted) + (letters - bad)}


def test_groups_by_a_field_are_exact_across_partitions_when_the_half_that_rekeys_is_killed(scene: MakeScene) -> None:
    app = rekeyed(scene)
    pay(app, 0, 500)
    worker = app.run()
    made(app, worker)
    for begin in (500, 1000):
        worker.wait("partition.claimed", begin // 500 * PARTITIONS, agent="sums.repartition")
        pay(app, begin, begin + 500)
        os.kill(worker.events("worker.started", agent="sums.repartition")[-1]["pid"], signal.SIGKILL)
    assert wrong(app) == {"lost": Counter(), "duplicate": Counter()}
    assert len(worker.events("worker.ended", agent="sums.repartition", code=-9)) == 2
    assert len(app.tap.ends(f"{app.name}.by-who")) == PARTITIONS


def sent_again(app: Scene, without: str) -> dict[str, Counter[tuple[str, int]]]:
    """The first half dies with payments delivered under their new key, and not recorded as such."""
    pay(app, 0, 600)
    worker = app.run("faulty", "acked-not-recorded=kill@100", without)
    made(app, worker)
    pid = worker.wait_hit()
    assert worker.events("worker.started", agent="sums.repartition", pid=pid), (
        "it was the other half: this proves nothing"
    )
    return wrong(app)


def test_what_the_half_that_rekeys_sends_twice_is_grouped_once(scene: MakeScene) -> None:
    assert sent_again(rekeyed(scene), "") == {"lost": Counter(), "duplicate": Counter()}


def test_without_receiving_what_was_sent_twice_is_grouped_twice(scene: MakeScene) -> None:
    assert sent_again(rekeyed(scene), "receive")["duplicate"]
