"""Guards of reducers that describe values: what they compute, keep and merge."""

from tests.mutation.guard import Guard

MOMENTS = ("tests/unit/statistics/test_moments.py",)

GUARDS = (
    Guard(
        "statistics: a variance is computed over differences from the first value",
        "streams/moments.py",
        "            state[origin] = value\n",
        "            state[origin], state[mean] = 0, as_float(value)\n",
        MOMENTS,
    ),
    Guard(
        "statistics: parts of a variance are merged with the distance of their means",
        "streams/moments.py",
        "        state[squares] += other[squares] + distance * distance * (one * two / many)\n",
        "        state[squares] += other[squares]\n",
        MOMENTS,
    ),
    Guard(
        "statistics: a value that is no number does not count where fields may be missing",
        "streams/moments.py",
        "        if lenient and type(value) is not int and type(value) is not float:",
        "        if value is None:",
        MOMENTS,
    ),
    Guard(
        "statistics: the loop has code for values that are kept as they are, and no other",
        "streams/aggregation/loop_group.py",
        "    elif kind.keeps_values:\n",
        "    elif kind.slots is not None:\n",
        MOMENTS,
    ),
)
