"""What a handler gets and may raise: `def enter(message, session): ...` named in the file as `handler:
package.module:enter`."""

from sluicegate.streams.handlers.values import BadItems, Batch, Context, Message, Outage

__all__ = ["BadItems", "Batch", "Context", "Message", "Outage"]
