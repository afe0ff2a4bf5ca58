"""The keys of rows, where the deadline of a row is the watermark that closes its group.

Such a group also has a deadline on the owner's clock. An alarm is a row for it, without a state: its key has the time
from which that deadline is measured, and the key of the group's row. All alarms are before all groups in the order of
the keys.
"""

from math import floor
from struct import Struct

ALARM, GROUP = b"\x00", b"\x01"
"""How the keys of alarms and of groups begin."""
_NUMBER = Struct(">q")
_PLACED = len(GROUP) + _NUMBER.size
NAMING = 2 * _PLACED  # the bytes of an alarm's key that precede the message key


def row_key(start: int, key: bytes) -> bytes:
    """The key of the row of a group of this message key."""
    return GROUP + _NUMBER.pack(start) + key


def start_of(row: bytes) -> int:
    start: int = _NUMBER.unpack_from(row, len(GROUP))[0]
    return start


def key_of(row: bytes) -> bytes:
    """The message key of the group of this row."""
    return row[_PLACED:]


def alarm(row: bytes, since: float) -> bytes:
    """The key of the alarm of this row. `since` is a time of the owner, in seconds."""
    return ALARM + _NUMBER.pack(floor(1000 * since)) + row


def is_alarm(key: bytes) -> bool:
    return key.startswith(ALARM)


def since_of(key: bytes) -> float:
    """The time of an alarm, at most a millisecond early."""
    return start_of(key) / 1000


def row_of(key: bytes) -> bytes:
    """The key of the row of an alarm."""
    return key[_PLACED:]
