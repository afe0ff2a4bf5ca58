"""`sluicegate replay`."""
