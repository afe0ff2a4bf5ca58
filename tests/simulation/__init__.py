"""The real engine, single-threaded, under a clock, a Kafka and a store that a seed lets fail: `python -m
tests.simulation --seed N`."""
