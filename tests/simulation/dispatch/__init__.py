"""The dispatcher under faults from a seed: the real lanes, timeouts, sender and calls, over the memory store and a log
in memory."""
