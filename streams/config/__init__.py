"""The declarative file: read, checked, and turned into an App."""

from streams.config.loading import Loaded, load
from streams.config.problems import Problem
from streams.config.secrets import redacted
from streams.config.words import meaning

__all__ = ["Loaded", "Problem", "load", "meaning", "redacted"]
