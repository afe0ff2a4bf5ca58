"""`sluicegate run`: its checks, its embedded broker and its console."""
