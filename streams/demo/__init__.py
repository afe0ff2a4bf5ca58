"""The parts of `sluicegate demo`: the flights, the declarative file, the recount, and the display."""
