"""Keys about the calls of handlers."""
