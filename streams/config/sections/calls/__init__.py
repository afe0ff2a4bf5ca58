"""The keys that control calls of handlers."""
