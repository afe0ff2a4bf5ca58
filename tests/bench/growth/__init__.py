"""What a record costs as one thing grows: `python -m tests.bench.growth`."""
