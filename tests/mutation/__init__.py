"""The guards of the protocol, taken out one by one: `make mutate`."""
