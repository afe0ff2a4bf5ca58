"""Bytewax: `collect` with a size and a timeout, as its documentation has it; the numbers are computed from the list.

python -m bytewax.run tests.bench.peers.programs.bytewax_job
"""

import os
from datetime import timedelta

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow

from tests.bench.peers.programs import said

said.started()
BROKERS = [os.environ["BENCH_BOOTSTRAP"]]


def keyed(message) -> tuple[str, int]:
    said.first()
    return message.key.decode(), orjson.loads(message.value)["amount"]


def result(group: tuple[str, list[int]]) -> KafkaSinkMessage:
    key, amounts = group
    document = {"key": key, "n": len(amounts), "sum": sum(amounts), "max": max(amounts)}
    return KafkaSinkMessage(key.encode(), orjson.dumps(document))


flow = Dataflow("j1")
source = KafkaSource(BROKERS, [os.environ["BENCH_TOPIC"]], batch_size=1000, add_config={"fetch.queue.backoff.ms": "5"})
amounts = op.map("keyed", op.input("orders", flow, source), keyed)
groups = op.collect("groups", amounts, timeout=timedelta(seconds=said.AFTER), max_size=said.COUNT)
op.output("totals", op.map("result", groups, result), KafkaSink(BROKERS, os.environ["BENCH_OUT"]))
