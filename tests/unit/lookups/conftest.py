"""The fixtures of the engine's tests."""

from tests.unit.engine.conftest import _disarmed, clock, log, store

__all__ = ["_disarmed", "clock", "log", "store"]
