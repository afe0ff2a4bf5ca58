"""One suite for all store backends: what `sluicegate.streams.contracts.Store` promises, tested on each of them."""
