"""An exact sum from which numbers can be removed again. It depends on the numbers only, not on their order.

Adding and subtracting doubles one by one accumulates errors, and the result depends on the order. So doubles are added
as integers, in units of the smallest positive double. The result is rounded once.
"""

from math import inf, isfinite

_UNIT = 1_074
"""Each double is a multiple of 2**-1074."""
_ONE = 1 << _UNIT


class ExactSum:
    """The sum of integers is an integer; otherwise it is a double. `integers` is the sum of the integers, `many` is the
    number of doubles."""

    __slots__ = ("_doubles", "_odd", "integers", "many")

    def __init__(self) -> None:
        self.integers = self._doubles = self.many = self._odd = 0

    def add(self, value: float) -> None:
        if type(value) is int:
            self.integers += value
        elif isfinite(value):
            self._doubles += _units(value)
            self.many += 1
        else:
            self._odd += 1
            self.many += 1

    def remove(self, value: float) -> None:
        """Remove a number that was added."""
        if type(value) is int:
            self.integers -= value
        elif isfinite(value):
            self._doubles -= _units(value)
            self.many -= 1
        else:
            self._odd -= 1
            self.many -= 1

    @property
    def value(self) -> float:
        """The sum. It is infinite if it exceeds the largest double, or if one of the numbers is not finite."""
        if self._odd:
            return inf
        if not self.many:
            return self.integers
        total = self._doubles + (self.integers << _UNIT)
        try:
            return total / _ONE
        except OverflowError:
            return inf if total > 0 else -inf


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT + 1 - denominator.bit_length())
