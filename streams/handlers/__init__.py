"""What a handler gets and may raise: `def enter(message, session): ...` named in the file as `handler: package.module:enter`."""

from streams.handlers.values import Batch, Context, Message, Outage

__all__ = ["Batch", "Context", "Message", "Outage"]
