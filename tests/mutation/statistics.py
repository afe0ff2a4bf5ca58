"""Guards of reducers that describe values: what they compute, keep and merge."""

from tests.mutation.guard import Guard

COUNTS = ("tests/unit/statistics/test_counts_and_ends.py",)
SKETCHES = ("tests/unit/statistics/test_sketches.py",)
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
        "statistics: a value that is not a number does not count where fields may be missing",
        "streams/moments.py",
        "        if lenient and type(value) is not int and type(value) is not float:",
        "        if value is None:",
        MOMENTS,
    ),
    Guard(
        "statistics: the loop has code for values that are kept as they are, and no other",
        "streams/aggregation/compiled/group_code.py",
        "    elif kind.keeps_values:\n",
        "    elif kind.slots is not None:\n",
        MOMENTS,
    ),
    Guard(
        "statistics: the number of a value outlives a compaction",
        "streams/counting.py",
        "        return [[value, number] for value, number in bag.items()]\n",
        "        return [*bag]\n",
        COUNTS,
    ),
    Guard(
        "statistics: a value counts towards the bytes of a group once",
        "streams/counting.py",
        "        return number * size if self.repeats else size * ((after > 0) - (before > 0))\n",
        "        return size\n",
        COUNTS,
    ),
    Guard(
        "statistics: the first and last values of merged groups go by their offsets",
        "streams/ends.py",
        "            insort(bag, item, key=_offset)\n",
        "            bag.append(item)\n",
        COUNTS,
    ),
    Guard(
        "statistics: a value that leaves a group takes its bytes with it",
        "streams/ends.py",
        "            size -= encoded_length(bag.pop(leaving))\n",
        "            bag.pop(leaving)\n",
        COUNTS,
    ),
    Guard(
        "statistics: a value larger than a group is refused where another one would leave for it",
        "streams/aggregation/groups.py",
        "        if self.outgrows(record, size + self.freed(key, items)):\n",
        "        if self.outgrows(record, size):\n",
        COUNTS,
    ),
    Guard(
        "statistics: the buckets of a percentile are bounded",
        "streams/quantiles.py",
        "        while len(bag) > MOST_BUCKETS:\n",
        "        while False:\n",
        SKETCHES,
    ),
    Guard(
        "statistics: the buckets of a percentile stay as coarse as they were",
        "streams/quantiles.py",
        "        if shift > bag.shift:\n",
        "        if False:\n",
        SKETCHES,
    ),
    Guard(
        "statistics: a register holds the greatest rank",
        "streams/cardinality.py",
        "        if rank <= known:\n",
        "        if rank == known:\n",
        SKETCHES,
    ),
    Guard(
        "statistics: the values of a ranking are bounded",
        "streams/frequent.py",
        "        if len(counts) < self._room:\n",
        "        if True:\n",
        SKETCHES,
    ),
    Guard(
        "statistics: what a value lost outlives a restart",
        "streams/frequent.py",
        "*([bag.lost] if bag.lost else []), ",
        "",
        SKETCHES,
    ),
    Guard(
        "statistics: percentiles of one field share what they keep",
        "streams/reducers.py",
        '        shares="buckets",\n',
        "",
        SKETCHES,
    ),
)
