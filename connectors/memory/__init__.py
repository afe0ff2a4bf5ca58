"""State in this process only: for tests, demos, and agents that may start from nothing."""
