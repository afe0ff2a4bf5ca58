"""Faust: a table of number, sum and maximum with a changelog topic. Its state is in memory (with RocksDB each record
costs more). A timeout would need a timer that reads the whole table: it is left out."""

import os
import sys

import faust
import orjson

from tests.bench.peers.programs import said

said.started()
app = faust.App(
    os.environ["BENCH_GROUP"],
    broker=f"aiokafka://{os.environ['BENCH_BOOTSTRAP']}",
    store="memory://",
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    topic_disable_leader=True,
    topic_partitions=4,
    topic_replication_factor=1,
    datadir=os.environ["BENCH_FOLDER"],
    processing_guarantee=os.environ["BENCH_GUARANTEE"],
)
raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
orders, totals = app.topic(os.environ["BENCH_TOPIC"], **raw), app.topic(os.environ["BENCH_OUT"], **raw)
groups = app.Table("groups", default=lambda: [0, 0, None], partitions=4)


@app.agent(orders)
async def fold(stream):
    async for key, value in stream.items():
        said.first()
        amount = orjson.loads(value)["amount"]
        name = key.decode()
        count, total, most = groups[name]
        count, total, most = count + 1, total + amount, amount if most is None else max(most, amount)
        if count >= said.COUNT:
            await totals.send(key=key, value=orjson.dumps({"key": name, "n": count, "sum": total, "max": most}))
            del groups[name]
        else:
            groups[name] = [count, total, most]


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--loglevel", "ERROR", "--without-web"]
    app.main()
