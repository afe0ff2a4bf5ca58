"""Sends results to Kafka: outbox rows, a partition's relay, the dispatcher and its lanes, and Kafka transactions.

It imports aggregation, calling, contracts and observe.
"""
