"""How results get out: outbox rows, a partition's relay, the dispatcher and its lanes, and transactions of Kafka.

It imports aggregation, calling, contracts and observe.
"""
