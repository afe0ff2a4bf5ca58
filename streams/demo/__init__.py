"""The parts of `sluicegate demo`: the flights, the declarative file, the recount, the display, and what it adds
to the page of the console."""
