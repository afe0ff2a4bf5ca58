"""The declarative file: it is read, checked, and turned into an App."""

from sluicegate.streams.config.loading import Loaded, load
from sluicegate.streams.config.text.problems import Problem
from sluicegate.streams.config.text.secrets import redacted
from sluicegate.streams.config.words import meaning

__all__ = ["Loaded", "Problem", "load", "meaning", "redacted"]
