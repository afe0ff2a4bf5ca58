"""Guards of what clauses and reducers mean. The oracle of all clauses must miss each of them. What few of its seeds
have, a test of its own must miss, too."""

from tests.mutation.guard import Guard

ORACLE = ("tests/unit/oracle/test_oracle.py",)
THESE = "plain_python"

GUARDS = (
    Guard(
        "clauses: of two reducers that keep the same each is merged",
        "streams/aggregation/reducers.py",
        "        made.append(place)\n",
        "        made[:] = [*(each for each in made if kept_as(each.reducer) != name), place]\n",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: until counts equal records of a leg",
        "streams/aggregation/ending.py",
        "item is not None and not (type(bag) is dict and item in bag)",
        "item is not None and item not in bag",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: the id of a record that is skipped is not remembered",
        "streams/aggregation/contents.py",
        "            self.counts.left_out.add(record.offset())\n",
        "            pass\n",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: the id of a record that is refused is not remembered",
        "streams/reading/dedupe.py",
        "            out |= {each.record.offset() for each in decided if isinstance(each, Refused)}\n",
        "",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: the ids of a batch push out older ones in their order",
        "streams/reading/dedupe.py",
        " or (known and seen.size + len(ids) > seen.most)",
        "",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a record that is refused moves no watermark",
        "streams/windows/groups.py",
        "            self.event.watermark = before\n",
        "            pass\n",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a record that is refused closes no window",
        "streams/windows/groups.py",
        "        if ends and not expected(",
        "        if False and not expected(",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a group of max_items ends whatever on_full says",
        "streams/aggregation/groups.py",
        '        if self.rule.parts:\n            self.fire(key, "limit", now)\n',
        '        if self.rule.aggregation.on_full == "fire-oldest":\n            self.fire(key, "limit", now)\n',
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: the mean of nothing is null",
        "streams/reducers.py",
        "_mean(state[slot], state[many]) if state[many] else None",
        "_mean(state[slot], state[many] or 1)",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a copy of what is missing is left out, whatever its new name is",
        "streams/aggregation/results.py",
        "for field in to.select if (path := copied_from(field))}",
        "for field in to.select if not field.expression and (path := copied_from(field))}",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: of several fields of one name the last one counts",
        "schemas/json.py",
        "            return msgspec.convert(decode_any(value), self.record_type)\n",
        "            raise\n",
        ("tests/unit/schemas/test_json.py", "tests/unit/aggregation/test_loop.py"),
        "one_name or careful",
    ),
    Guard(
        "clauses: 42 and 42.0 are one key",
        "schemas/json.py",
        "            return int(value) if value.is_integer() else value\n",
        "            return value\n",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a sum that no double holds is a dead letter",
        "streams/aggregation/firing.py",
        "        if names := self.rule.overflowed(fire.values):\n",
        "        if names := list[str]():\n",
        ORACLE,
        THESE,
    ),
    Guard(
        "clauses: a window may begin before 1970",
        "streams/aggregation/results.py",
        "min(max(at, FIRST_MOMENT), LAST_MOMENT)",
        "min(max(at, 0.0), LAST_MOMENT)",
        ("tests/unit/engine/test_rows.py::test_times_are_those_of_the_standard_library", *ORACLE),
        THESE,
    ),
)
