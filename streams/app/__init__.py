"""`from sluicegate import App`: a whole application in Python. It makes the document that a file would hold, so every
check, error and process is the same as for a file."""

from sluicegate.streams.app.agent import Agent
from sluicegate.streams.app.application import App

__all__ = ["Agent", "App"]
