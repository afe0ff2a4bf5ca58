"""Guards of flow control: limits of all workers together, leases of keys, and the limit of dead letters."""

from tests.mutation.guard import Guard

LIMITS = ("tests/unit/flow/test_limits.py",)
CALLS = ("tests/unit/engine/test_flow_control.py",)
TOKENS = ("tests/unit/flow/test_tokens.py",)
STOP_ABOVE = ("tests/unit/engine/test_stop_above.py",)
LETTERS = "streams/ownership/dead_limit.py"

GUARDS = (
    Guard(
        "stop_above: a partition that is about to halt takes none of the records that it has fetched",
        "streams/engine/worker.py",
        "        while records and owner.stopping is None:\n",
        "        while records:\n",
        STOP_ABOVE,
    ),
    Guard(
        "stop_above: the dead letters are sent before the partition halts",
        "streams/ownership/owner.py",
        "        return None if self.shard.unsent or self.shard.more else self.stopping\n",
        "        return self.stopping\n",
        STOP_ABOVE,
    ),
    Guard(
        "stop_above: what is older than the time does not count",
        LETTERS,
        "        while steps and steps[0].number <= number - STEPS:\n            steps.popleft()\n",
        "",
        STOP_ABOVE,
    ),
    Guard(
        "stop_above: the time slides on after the clock of the store was set back",
        LETTERS,
        "        if steps and steps[-1].number > number:",
        "        if False:",
        STOP_ABOVE,
    ),
    Guard(
        "stop_above: a group stands for its records",
        LETTERS,
        "            records = 1 if event.fire.goes_on else event.fire.count\n",
        "            records = 1\n",
        STOP_ABOVE,
    ),
    Guard(
        "stop_above: a share is judged of enough records",
        LETTERS,
        "            above = records >= LEAST and dead",
        "            above = dead",
        STOP_ABOVE,
    ),
    Guard(
        "flow: tokens of a throttle are spread over the time in which they may be used, and not over `per` alone",
        "streams/flow/limits.py",
        "        self.interval = (per + self.validity) / limit * ROUNDING\n",
        "        self.interval = per / limit\n",
        LIMITS,
    ),
    Guard(
        "flow: a rate limit counts a token until nobody can use it any more",
        "streams/flow/limits.py",
        "        self._span = per + self.validity\n",
        "        self._span = per\n",
        LIMITS,
    ),
    Guard(
        "flow: a rate limit counts a token at no time before it was given",
        "streams/flow/limits.py",
        "            at = (floor(now / self._step) + 1) * self._step  # not before any of the counted tokens\n",
        "            at = (floor(now / self._step) - 1) * self._step\n",
        LIMITS,
    ),
    Guard(
        "flow: a state of a clock that was set back holds nobody up",
        "streams/flow/limits.py",
        "            first = max(first, min(state, now + self._ahead + self.interval))\n",
        "            first = max(first, state)\n",
        LIMITS,
    ),
    Guard(
        "flow: a token that has ended permits no call",
        "streams/flow/tokens.py",
        "            if self._ledger.time.latest(self._monotonic()) < token.ends:\n                return True\n",
        "            return True\n",
        TOKENS,
    ),
    Guard(
        "flow: a call waits for the begin of its token",
        "streams/flow/tokens.py",
        "            if early > 0 and cancelled.wait(early):\n",
        "            if early > 0 and cancelled.is_set():\n",
        TOKENS,
    ),
    Guard(
        "flow: a ledger takes no more keys than it can write",
        "streams/flow/tokens.py",
        "now + FULL) if full and known is None else",
        "now + FULL) if False else",
        TOKENS,
    ),
    Guard(
        "flow: the ledger forgets idle keys",
        "streams/flow/tokens.py",
        "        states[key] = None\n    full",
        "        pass\n    full",
        TOKENS,
    ),
    Guard(
        "flow: a call that is not admitted counts no attempt",
        "streams/handlers/slow.py",
        "            return TryAgain(item.attempts - 1, 0.0)\n",
        "            return TryAgain(item.attempts, 0.0)\n",
        CALLS,
    ),
    Guard(
        "flow: a process does not take the key of a singleton that another one has",
        "streams/flow/singletons.py",
        "            if holder == self._holder:\n                states[key] = [self._holder, now + LEASE]\n",
        "            if True:\n                states[key] = [self._holder, now + LEASE]\n",
        CALLS,
    ),
    Guard(
        "flow: the lease of a key is renewed while its call runs",
        "streams/flow/singletons.py",
        "        if due:\n            with suppress",
        "        if due and any(lease.unused(now) for lease in self._keys.values()):\n            with suppress",
        CALLS,
    ),
    Guard(
        "flow: a call whose lease is nearly over does not begin",
        "streams/flow/singletons.py",
        "            if lease is None or lease.call is not call or not self._lasts(lease):\n",
        "            if lease is None or lease.call is not call:\n",
        TOKENS,
    ),
    Guard(
        "flow: a rate limit counts no item again that is read again after a crash",
        "streams/flow/control.py",
        "        known: list[str] = states.get(name) or []\n",
        "        known: list[str] = []\n",
        CALLS,
    ),
    Guard(
        "flow: the keys of a partition take turns",
        "streams/handlers/sealed.py",
        "            self._queues[item.key] = self._queues.pop(item.key)\n",
        "            pass\n",
        CALLS,
    ),
    Guard(
        "flow: a priority counts in all partitions of a worker",
        "streams/flow/control.py",
        "            while before < len(rivals) and rivals[before] < rank:\n",
        "            while False:\n",
        CALLS,
    ),
)
