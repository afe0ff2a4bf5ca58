"""Flow control of the calls of handlers, over all workers of an agent: `throttle`, `rate_limit`, `singleton`."""
