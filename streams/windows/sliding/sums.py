"""An exact sum that takes numbers in and lets them go again: it depends on the numbers alone, not on their order.

A sum of doubles that are added and subtracted one by one has errors that grow, and another history gives another sum.
So doubles are added as integers, in units of the least double that is not 0. The result is rounded once.
"""

from math import inf, isfinite

_UNIT = 1_074
"""Each double is a multiple of 2**-1074."""
_ONE = 1 << _UNIT


class ExactSum:
    """Of integers it is an integer, else a double."""

    __slots__ = ("_doubles", "_integers", "_many", "_odd")

    def __init__(self) -> None:
        self._integers = self._doubles = self._many = self._odd = 0

    def add(self, value: float) -> None:
        if type(value) is int:
            self._integers += value
        elif isfinite(value):
            self._doubles += _units(value)
            self._many += 1
        else:
            self._odd += 1

    def remove(self, value: float) -> None:
        """Of the numbers that were added."""
        if type(value) is int:
            self._integers -= value
        elif isfinite(value):
            self._doubles -= _units(value)
            self._many -= 1
        else:
            self._odd -= 1

    @property
    def value(self) -> float:
        """Infinite if no double is as great, or with a number that is not a finite one."""
        if self._odd:
            return inf
        if not self._many:
            return self._integers
        total = self._doubles + (self._integers << _UNIT)
        try:
            return total / _ONE
        except OverflowError:
            return inf if total > 0 else -inf


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT + 1 - denominator.bit_length())
