"""A store in the memory of one process: for tests, demos, and agents whose state may be lost."""
