"""The tuned loop without durability: what a person would write by hand when nothing may be lost is not asked for.

Batches of 250, each record decoded to a msgspec Struct and dropped at once, no call per record but `value()`, results
produced at once, offsets committed by librdkafka now and then.

    python -m tests.bench.loop BOOTSTRAP TOPIC OUT GROUP [--count 100] [--rows] [--low-latency]

It is written inside a function: the same lines at the level of the module are 1.2 to 1.3 times slower, because Python
looks their names up in a dict.

At its first record it writes a JSON line to stderr: the moment (monotonic seconds) and the CPU seconds spent until
then.
"""

import argparse
import json
import os
import signal
import sys
import time

import msgspec
from confluent_kafka import Consumer, Producer

BATCH = 250


class Order(msgspec.Struct, gc=False):
    key: str
    amount: int


class Keyed(msgspec.Struct, gc=False):
    key: str


def clients(options: argparse.Namespace) -> tuple[Consumer, Producer]:
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {"bootstrap.servers": options.bootstrap, "linger.ms": 5, "compression.type": "lz4" if options.rows else "none"}
    )
    consumer.subscribe([options.topic], on_assign=lambda *_: say("loop.assigned"))
    return consumer, producer


def batches(consumer: Consumer, low_latency: bool, stop: list[int], size: int = BATCH):
    """Lists of up to `size` until `stop`. `consume(n, t)` waits for n messages or all of t: with `low_latency`, wait
    only for the first."""
    first = True
    while not stop:
        if low_latency:
            message = consumer.poll(0.2)
            batch = [] if message is None else [message, *consumer.consume(size, 0)]
        else:
            batch = consumer.consume(size, 0.2)
        if first and batch:
            first = False
            say("loop.first", pid=os.getpid(), at=time.monotonic(), cpu=time.process_time())
        yield batch


def fold(consumer: Consumer, producer: Producer, options: argparse.Namespace, stop: list[int]) -> None:
    """Every `count` records of a key: how many, their sum, the largest."""
    decode, encode = msgspec.json.Decoder(Order).decode, msgspec.json.Encoder().encode
    count, out = options.count, options.out
    groups: dict[str, list[int]] = {}
    for batch in batches(consumer, options.low_latency, stop):
        for message in batch:
            order = decode(message.value())
            key, amount = order.key, order.amount
            group = groups.get(key)
            if group is None:
                group = groups[key] = [amount]
            else:
                group.append(amount)
            if len(group) >= count:
                producer.produce(
                    out, encode({"key": key, "n": len(group), "sum": sum(group), "max": max(group)}), key=key
                )
                del groups[key]
        producer.poll(0)


def collect(consumer: Consumer, producer: Producer, options: argparse.Namespace, stop: list[int]) -> None:
    """Every `count` records of a key: all of them."""
    decode, count, out = msgspec.json.Decoder(Keyed).decode, options.count, options.out
    groups: dict[str, list[bytes]] = {}
    for batch in batches(consumer, options.low_latency, stop):
        for message in batch:
            value = message.value()
            key = decode(value).key
            group = groups.get(key)
            if group is None:
                group = groups[key] = [value]
            else:
                group.append(value)
            if len(group) >= count:
                producer.produce(
                    out, b'{"key":"%s","n":%d,"rows":[%s]}' % (key.encode(), len(group), b",".join(group)), key=key
                )
                del groups[key]
        producer.poll(0)


def say(event: str, **fields: float) -> None:
    """In one write, because several processes may share the pipe."""
    sys.stderr.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stderr.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "out", "group"):
        parser.add_argument(name)
    parser.add_argument("--count", type=int, default=100)
    for name in ("--rows", "--low-latency"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    options, stop = arguments(), list[int]()
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    say("worker.started", pid=os.getpid())
    consumer, producer = clients(options)
    (collect if options.rows else fold)(consumer, producer, options, stop)
    producer.flush(10)
    consumer.close()
