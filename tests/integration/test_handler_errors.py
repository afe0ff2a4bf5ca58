"""An error of a handler as a person meets it: in the log of `sluicegate run`, and in the headers of the dead letter."""

import json
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.supervised.run import Run
from tests.waiting import wait_until

FILE = """\
app: shop
kafka: {bootstrap.servers: embedded}
store: memory://
dead_letters: shop.dead
http: {port: 0}
agents:
  orders:
    from: orders
    handler: shop.handlers:enter
    retry: {attempts: 2, backoff: 100ms..100ms}
"""
MODULE = """\
def enter(value):
    return amount_of(value)


def amount_of(order):
    raise ValueError(f"no amount for {order['name']} in {order}")
"""


def test_run_logs_message_and_place_without_the_records_values_and_the_dead_letter_has_both(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "handlers.py").write_text(MODULE)
    (tmp_path / "shop.yaml").write_text(FILE)
    command = str(Path(sys.executable).with_name("sluicegate"))
    run = Run(command, "run", str(tmp_path / "shop.yaml"))
    consumer = None
    try:
        bootstrap = run.wait("broker.embedded")[0]["bootstrap"]
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        producer.produce("orders", key="1", value=json.dumps({"name": "Roberta", "iban": "DE8937040044"}))
        assert producer.flush(10) == 0
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "log_level": 0})
        consumer.assign([TopicPartition("shop.dead", number, 0) for number in range(4)])
        letters = []
        wait_until(lambda: letters.append(consumer.poll(0.1)) or letters[-1] is not None, 30, "the dead letter")
        failed = run.wait("handler.failed", 2)
        text = "\n".join(map(str, run.lines))
    finally:
        if consumer is not None:
            consumer.close()
        run.close()
    headers = {name: value.decode() for name, value in letters[-1].headers()}
    output = "the handler raised ValueError: no amount for Roberta in {'name': 'Roberta', 'iban': 'DE8937040044'}"
    assert headers["sluicegate-dead-error"] == output
    assert headers["sluicegate-dead-where"] == "shop/handlers.py:6 in amount_of"
    for event in failed:
        assert event["error"].startswith("ValueError: no amount for <value> in {")
        assert event["raised_at"] == "shop/handlers.py:6 in amount_of"
    assert "Roberta" not in text
    assert "DE89" not in text
