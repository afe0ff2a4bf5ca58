"""One suite for all store backends: what `streams.contracts.Store` promises, tested on each of them."""
