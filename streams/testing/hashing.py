"""The hash by which Kafka's Java clients choose the partition of a key."""

_SEED, _MIX, _BITS = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """An unsigned number of 32 bits."""
    value = (_SEED ^ len(data)) & _BITS
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MIX & _BITS
        word = (word ^ word >> 24) * _MIX & _BITS
        value = value * _MIX & _BITS ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _BITS
    value = (value ^ value >> 13) * _MIX & _BITS
    return value ^ value >> 15


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % count
