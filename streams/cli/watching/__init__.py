"""`sluicegate status`: the progress of each partition."""
