"""The rebuild of the state of an agent whose store was lost."""
