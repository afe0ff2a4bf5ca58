"""`sluicegate check`, and the checks of the systems that a file names."""
