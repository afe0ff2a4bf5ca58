"""What a history runs on: the field of a soak, with the agents of a workload, a feed, and a tap that notes times."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer

from sluicegate.connectors import open_store
from tests.chaos.record import Seen
from tests.chaos.scene import Scene
from tests.conftest import create_topic
from tests.histories.workloads import PARTITIONS, WORKLOADS, Sent, Workload
from tests.servers import Unavailable
from tests.servers.disk import Disk
from tests.soak.field import KAFKA, Field, Setting

NAME = "histories"
TOPICS = {"in": PARTITIONS, "out": 3, "further": 2, "dead": 1, "totals": 1}


class HistoryField(Field):
    """`records` are those of the feed by number, with the times at which they were sent; `came` are the outputs, with
    the times at which a consumer first had them."""

    def __init__(self, setting: Setting, workload: str, root: Path) -> None:
        self.workload_name = workload
        self.sent: dict[int, tuple[Sent, float]] = {}
        self.came: list[tuple[Seen, float]] = []
        self.names: set[str] = set()
        super().__init__(setting, root)

    def _scene(self, url: str, root: Path) -> Scene:
        bootstrap, copies = self.cluster.url, 3 if self.setting.brokers > 1 else 1
        for topic, partitions in TOPICS.items():
            create_topic(bootstrap, f"{NAME}.{topic}", partitions, {}, copies)
        store = open_store(url)
        store.migrate()
        store.close()
        self.workload: Workload = WORKLOADS[self.workload_name](NAME, self.setting.seed, url)
        app = Scene(NAME, root, bootstrap, url, PARTITIONS, kafka=KAFKA)
        app.tap.follow(f"{NAME}.further")
        self.workload.prepare(root)
        if url.startswith("sqlite:"):
            self._disk(root)
        lease = {"lease": "10s", "poll": "100ms"}
        app.spec["agents"] = self.workload.agents()
        if self.workload.timeouts:
            app.spec |= {"timeouts": lease, "outbox": lease | {"lanes": 2}}
        self._feeder = threading.Thread(target=self._feed, name="feed", daemon=True)
        self._fed = threading.Event()
        return app

    def _disk(self, root: Path) -> None:
        """Below the store's file, where the kernel lets us answer."""
        with suppress(Unavailable):
            self.disk = Disk(root / "state", root / "synced")
            self._opened.callback(self.disk.close)
            self.disk.keep()

    # -- the load ------------------------------------------------------------------------------------------------------

    def feed(self) -> None:
        self._feeder.start()

    def _feed(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 1, "log_level": 0, "message.timeout.ms": 300_000}
        producer: Any = Producer({"bootstrap.servers": self.cluster.url, **settings})
        number = 0
        while not self._fed.wait(self.setting.pause):
            for _ in range(PARTITIONS):
                record = self.workload.record(number)
                self.sent[number] = record, time.time()
                value = json.dumps(record.value).encode()
                producer.produce(f"{NAME}.in", value, record.key.encode(), record.partition)
                number += 1
            producer.poll(0)
        assert producer.flush(300) == 0

    def end_of_load(self) -> None:
        """All records are in the log when it returns."""
        self._fed.set()
        self._feeder.join(310)

    # -- what comes out ------------------------------------------------------------------------------------------------

    def draw(self, wait: float = 0.1) -> None:
        self._note(self.scene.tap.draw(wait))

    def finish(self) -> bool:
        """Read up to where the topics end now; False while brokers do not say where that is."""
        try:
            self._note(self.scene.tap.finish())
        except KafkaException:
            return False
        return True

    def _note(self, records: list[Seen]) -> None:
        at = time.time()
        outputs = {f"{NAME}.{topic}" for topic in self.workload.outputs}
        for record in records:
            if record.topic in outputs:
                self.came.append((record, at))
                self.names.add(self.workload.element(record))

    def unsent(self) -> int:
        """Timeouts and rows that the store still has when all workers have ended: these are late, not lost."""
        store: Any = open_store(self.scene.store, app=NAME)
        try:
            return int(store.timeouts.count()) + int(store.outbox.count("pending"))
        finally:
            store.close()

    def missing(self) -> list[str]:
        """The elements that have not come."""
        return [name for record, _ in list(self.sent.values()) for name in record.names if name not in self.names]
