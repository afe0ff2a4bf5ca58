"""The parts of `sluicegate demo` that know flights: their file, the declarative file, the recount, what is shown."""
