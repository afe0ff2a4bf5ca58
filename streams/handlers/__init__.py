"""The application's handlers: what a handler receives and may raise, and how the engine calls it.

The file names a handler as `handler: package.module:enter`; the function is `def enter(message, session): ...`.
"""

from sluicegate.streams.handlers.parameters import Schedule, Send, Session
from sluicegate.streams.handlers.values import BadItems, Batch, Context, Message, Outage

__all__ = ["BadItems", "Batch", "Context", "Message", "Outage", "Schedule", "Send", "Session"]
