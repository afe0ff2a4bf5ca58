"""Guards of the expressions of the file: what they leave out, what they cannot answer, and what must not change."""

from tests.mutation.guard import NEVER, Guard

RUNS = "        for run in dedupe.runs(fresh, now, groups, self.inbox) if dedupe else (fresh,):\n"
TAKEN = "        fresh = taken(groups, fresh) if origin is None else stamping(origin, fresh, now)\n"
WHERE = ("tests/unit/engine/test_where.py",)
FILES = ("tests/unit/testing/test_expressions.py",)
UNTIL = ("tests/unit/aggregation/test_until.py",)

SENT = ("tests/unit/engine/test_handler_routes.py",)
TYPED = ("tests/unit/config/test_typed.py",)
FORWARDER, FORWARDING = "streams/handlers/forwarding.py", ("tests/unit/engine/test_forwarding.py",)
CONVERTED = ("tests/unit/testing/test_forwarded_formats.py",)

GUARDS = (
    Guard(
        "a forwarder does not decode a value that no clause reads",
        "streams/aggregation/clauses.py",
        "        self.decodes = not opaque or bool(fields)",
        "        self.decodes = True or bool(fields)",
        FORWARDING,
    ),
    Guard(
        "a forwarded record without an id is a dead letter whatever its value is",
        "streams/reading/dedupe.py",
        '        self.opaque = agent.passes_values and agent.dedupe.by != "field"',
        "        self.opaque = False",
        FORWARDING,
    ),
    Guard(
        "a forwarder decodes a value from which an id is read",
        FORWARDER,
        "        opaque = agent.passes_values and not by_field",
        "        opaque = agent.passes_values",
        FORWARDING,
    ),
    Guard(
        "a forwarder validates",
        "streams/agent.py",
        "        return self.forwards and not (self.schema is not None and self.schema.refuses)",
        "        return self.forwards",
        ("tests/unit/config/test_idle.py",),
    ),
    Guard(
        "a value goes on as it came where no key of the output says otherwise",
        "streams/config/checking/forwarding.py",
        '    if to.format in (agent.format, "raw"):',
        "    if False:",
        CONVERTED,
    ),
    Guard(
        "an event that is written anew loses the headers of the event that came",
        FORWARDER,
        "        kept, own = forwarded.headers, others(forwarded.headers) if self._events",
        "        kept, own = forwarded.headers, forwarded.headers if self._events",
        CONVERTED,
    ),
    Guard(
        "a record without a value is written as one",
        FORWARDER,
        '        if value is None or to.format == "json":\n            return None if value is None else text(value)',
        '        if to.format == "json":\n            return text(value)',
        CONVERTED,
    ),
    Guard(
        "a forwarded record gets its new key",
        FORWARDER,
        "        key = record.key() if key_of is None else",
        "        key = record.key() if key_of is None or True else",
        FORWARDING,
    ),
    Guard(
        "a forwarded record that no route takes is a dead letter",
        FORWARDER,
        "            return Message(Forwarded([], None, ()), record) if self._drops else unrouted",
        "            return Message(Forwarded([], None, ()), record) if self._drops or unrouted else unrouted",
        FORWARDING,
    ),
    Guard(
        "a forwarded record loses the headers of the output that it was",
        "streams/contracts/headers.py",
        "    return others(headers(record))",
        "    return headers(record)",
        FORWARDING,
    ),
    Guard(
        "each output of a forwarded record has an id of its own",
        FORWARDER,
        "        Sent(identity, index, topic,",
        "        Sent(identity, 0, topic,",
        FORWARDING,
    ),
    Guard(
        "the id of a forwarded record is made of its offset",
        FORWARDER,
        "                events += self._sent(item, identify(item.offset))",
        "                events += self._sent(item, identify(item.offset + len(events)))",
        ("tests/unit/cli/test_forwarder.py",),
    ),
    Guard(
        "a forwarded record goes to all of its routes or to none",
        FORWARDER,
        '            raise Unsendable("too-large", text)\n',
        "            return Message(Forwarded(forwarded.headers, key, outputs[:1]), record)\n",
        FORWARDING,
    ),
    Guard(
        "a schema has all names of its records",
        "streams/config/checking/record_types.py",
        "    return RecordType(type_.fields, file or f\"the schema {schema['name']}\") if",
        "    return RecordType(type_.fields, None) if",
        TYPED,
    ),
    Guard(
        "a warning of `check` is no problem",
        "streams/config/checking/typed.py",
        "        return Judged(of_file, problem.is_warning)",
        "        return Judged(of_file, False)",
        TYPED,
    ),
    Guard(
        "the offset moves with repeats that are dropped",
        "streams/ownership/intake.py",
        "        self.pending += len(records)\n",
        "        self.pending += len(fresh)\n",
        ("tests/unit/engine/test_outbox.py",),
    ),
    Guard(
        "`where` is asked before an id is remembered",
        "streams/ownership/intake.py",
        TAKEN + RUNS,
        f"{RUNS}            run = taken(groups, run)\n",
        WHERE,
    ),
    Guard(
        "a record that the typed form cannot judge is asked exactly",
        "streams/aggregation/clauses.py",
        "        answer = exactly(record)\n",
        "        answer = False\n",
        ("tests/unit/aggregation/test_typed_where.py",),
    ),
    Guard(
        "a result whose clause fails is a dead letter",
        "streams/aggregation/results.py",
        "            yield Unhandled(fire, str(failed), 1,",
        "            return\n            yield Unhandled(fire, str(failed), 1,",
        FILES,
    ),
    Guard(
        "a result that no route takes is a dead letter",
        "streams/aggregation/results.py",
        "            elif not self._drops and not fire.goes_on:",
        "            elif False:",
        FILES,
    ),
    Guard(
        "what a handler sends and no route takes is a dead letter",
        "streams/handlers/sending.py",
        "        if not outputs and not self._drops:\n",
        "        if False:\n",
        SENT,
    ),
    Guard(
        "nothing of a call is sent if no route takes one of its values",
        "streams/handlers/handling.py",
        "        if context.not_sent is not None:\n",
        "        if False:\n",
        SENT,
    ),
    Guard(
        "a handler whose value no route takes is not called again",
        "streams/handlers/attempts.py",
        "    if failure.not_sent:\n",
        "    if False:\n",
        SENT,
    ),
    Guard(
        "until reads a field again that the code of a deadline may not have read",
        "streams/expressions/typed.py",
        "        with self._perhaps():\n            if path is not None",
        "        if True:\n            if path is not None",
        ("tests/unit/aggregation/test_loop.py",),
        "cancelled_deadline",
    ),
    Guard(
        "the integers of a number that is converted have 64 bits",
        "streams/expressions/typed.py",
        'F=f"to_{function}", X=self._checked(operand).code)',
        'F=f"to_{function}", X=operand.code)',
        ("tests/unit/expressions/test_typed.py",),
    ),
    Guard(
        "an exact part of until reads no group in the compiled loop",
        "streams/expressions/typed.py",
        "if root in self._sealed or not",
        "if not",
        ("tests/unit/aggregation/test_loop.py",),
        "reads_no_group",
    ),
    Guard(
        "a text beside the value that is too long is left to the exact form",
        "streams/aggregation/clauses.py",
        "    if value is not None and len(value) > OUTSIDE:\n",
        "    if False:\n",
        ("tests/unit/aggregation/test_loop.py",),
        "beside_the_value",
    ),
    Guard(
        "each item of a loop costs steps for what the loop's body does",
        "streams/expressions/exact.py",
        "        steps = -(-(self._size - before) // _SHARE)\n",
        "        steps = 1\n",
        ("tests/expressions/test_bounds.py",),
    ),
    Guard(
        "the expressions of a shared batch are counted",
        "streams/shared/shared_fires.py",
        "                count_answers(outcome.answers, self._meter)\n",
        "",
        ("tests/unit/engine/test_expressions_of_results.py",),
    ),
    Guard(
        "a record that `until` cannot answer is in no group",
        "streams/aggregation/accept.py",
        "state if rule.ending is None else state.copy()",
        "state",
        UNTIL,
    ),
    Guard(
        "`until` is false while a value of the group does not exist",
        "streams/aggregation/ending.py",
        "            if any(name not in group for name in self._names):",
        f"            {NEVER}",
        UNTIL,
    ),
    Guard(
        "`until` sees the group with the record",
        "streams/aggregation/ending.py",
        "range(len(bag) + _grows(bag, item))",
        "range(len(bag))",
        UNTIL,
    ),
    Guard(
        "the fingerprint has the normal forms of computed fields",
        "streams/aggregation/rule.py",
        "    if lets:\n        more.append",
        f"    {NEVER}\n        more.append",
        ("tests/unit/aggregation/test_let.py",),
    ),
)
