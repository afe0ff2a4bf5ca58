"""Guards of change events: the groups of a table are what the database would answer."""

from tests.mutation.guard import Guard

ORACLE = ("tests/unit/tables/test_oracle.py",)
CHANGES = ("tests/unit/tables/test_changes.py",)

GUARDS = (
    Guard(
        "tables: the row before a change is taken back as it was added",
        "streams/handlers/tables.py",
        "(state[ROW_KEY], state[ROW])\n        try:",
        "None\n        try:",
        ORACLE,
    ),
    Guard(
        "tables: a row that moves is taken back from its old group",
        "streams/handlers/tables.py",
        "    gone = [] if before is None else [(before[0], change_events.change(before[1], None))]\n",
        "    gone: list[GroupChange] = []\n",
        ORACLE,
    ),
    Guard(
        "tables: an update within a group is one change",
        "streams/handlers/tables.py",
        "    if before is not None and after is not None and before[0] == after[0]:\n",
        "    if False:\n",
        CHANGES,
    ),
    Guard(
        "tables: a repeated change writes nothing",
        "streams/handlers/tables.py",
        "        if before == after:\n            return []\n",
        "",
        CHANGES,
    ),
    Guard(
        "tables: a row that no group can have leaves the group that had it",
        "streams/handlers/tables.py",
        "            keyed = self._keyed(RecordView(record, row, record.headers()), row)\n"
        "        except Exception as error:\n"
        "            refuse(groups, record, error)\n"
        "            return None\n",
        "            keyed = self._keyed(RecordView(record, row, record.headers()), row)\n"
        "        except Exception as error:\n"
        "            refuse(groups, record, error)\n"
        "            return before\n",
        CHANGES,
    ),
    Guard(
        "tables: a TRUNCATE, which has no key, is decided by on_error",
        "streams/handlers/tables.py",
        "        if name is None and value is not None:\n",
        "        if False:\n",
        CHANGES,
    ),
    Guard(
        "tables: a row that is gone is not kept",
        "streams/handlers/tables.py",
        "        groups.drop(name)\n        return\n",
        "        groups.states[name][ROW_KEY] = groups.states[name][ROW] = b''\n        return\n",
        ORACLE,
    ),
    Guard(
        "tables: the rows of a partition are bounded",
        "streams/config/checking/tables.py",
        '    aggregation = run.Aggregation(on_null=rule.on_null, on_missing=on_missing, on_full="stop", **limits)\n',
        "    aggregation = run.Aggregation(on_null=rule.on_null, on_missing=on_missing, **limits)\n",
        CHANGES,
    ),
    Guard(
        "tables: a group ends with its last row",
        "streams/aggregation/accept.py",
        "    if not state[ROWS]:\n        groups.fire(key, EMPTY, now)\n    elif early",
        "    if early",
        ORACLE,
    ),
    Guard(
        "tables: a row that was refused when it came is not taken back",
        "streams/aggregation/accept.py",
        "    except Exception:  # the row was refused when it arrived\n        return None\n",
        "    except Exception as error:\n        refuse(groups, record, error)\n        return None\n",
        CHANGES,
    ),
    Guard(
        "tables: a sum of doubles is exact",
        "streams/moments.py",
        "        _sum_up(state, at, sign, *value.as_integer_ratio())\n",
        "        state[at] += sign * value\n",
        CHANGES,
    ),
    Guard(
        "tables: a sum is an integer again when its doubles are gone",
        "streams/moments.py",
        "            state[doubles] += sign\n",
        "            state[doubles] += sign > 0\n",
        ORACLE,
    ),
    Guard(
        "tables: the number of rows is what a mean is divided by, and not the number of changes",
        "streams/aggregation/reducers.py",
        "    records = ROWS if table else COUNT\n",
        "    records = COUNT\n",
        ORACLE,
    ),
    Guard(
        "tables: a value without a row is not kept",
        "streams/counting.py",
        "        if not after:\n            del bag[value]\n",
        "",
        ORACLE,
    ),
    Guard(
        "tables: equal values that are collected take their bytes each",
        "streams/counting.py",
        "        return number * size if self.repeats else size * ((after > 0) - (before > 0))\n",
        "        return size * ((after > 0) - (before > 0))\n",
        ("tests/unit/tables/test_bounds.py",),
    ),
    Guard(
        "tables: a group with rows has no limit of records",
        "streams/aggregation/completion.py",
        "        inf if aggregation.table else min(count, aggregation.max_items),\n",
        "        min(count, aggregation.max_items),\n",
        ("tests/unit/tables/test_bounds.py",),
    ),
    Guard(
        "tables: a changed rule that the rows do not fit is refused",
        "streams/rules/changes.py",
        "    if _over_table(old) or _over_table(new):\n",
        "    if False:\n",
        CHANGES,
    ),
    Guard(
        "tables: the row of a cold group counts towards the bytes of its partition",
        "streams/aggregation/groups.py",
        "        self.states[key] = self.touched[key] = state\n        self.bytes += state[BYTES]\n",
        "        self.states[key] = self.touched[key] = state\n",
        ("tests/unit/tables/test_bounds.py",),
    ),
    Guard(
        "tables: no person ends a group with rows",
        "streams/operations/groups/group_changes.py",
        "    if agent.over_table:\n",
        "    if False:\n",
        CHANGES,
    ),
    Guard(
        "tables: a change that is a dead letter is not sent again",
        "streams/operations/dead/dead_records.py",
        "        return OF_A_TABLE if over_table and _is_record(letter) else None\n",
        "        return None\n",
        CHANGES,
    ),
    Guard(
        "tables: a row that no group can have leaves the rebuilt rows",
        "streams/operations/rebuilding/rebuild_rekeyed.py",
        "        aside = known.crashed if agent.keeps_rows else known.dead\n",
        "        aside = known.dead\n",
        ("tests/unit/tables/test_replays.py",),
    ),
    Guard(
        "tables: a shadow begins where the agent began",
        "streams/shadow/witness.py",
        '    state += [("over a table", "the rows that were added before")] if rule.over_table else []\n',
        "",
        ("tests/unit/tables/test_replays.py",),
    ),
    Guard(
        "tables: a large value that did not change is taken from the known row",
        "schemas/change_events.py",
        "            values[name] = before[name]\n",
        "            pass\n",
        ("tests/unit/schemas/test_change_events.py",),
    ),
)
