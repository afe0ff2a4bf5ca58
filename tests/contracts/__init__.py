"""One suite for all store backends: what `sluicegate.streams.contracts.stores.Store` promises, tested on each of
them."""
