"""Guards of the rule of an agent, its digest, and what a change of it means."""

from tests.mutation.guard import NEVER, Guard

RULE_OF, CLASSES = ("tests/unit/rules/test_rule_of.py",), ("tests/unit/rules/test_classes.py",)
PLAN = ("tests/unit/cli/test_plan.py",)

DEPLOYED = ("tests/unit/engine/test_deployments.py",)
DEPLOY = ("tests/unit/cli/test_deploy.py",)

GUARDS = (
    Guard(
        "a worker with an earlier version of the rule does not take the partition",
        "streams/ownership/switching.py",
        "    if before.version > deployed.number:",
        f"    {NEVER}",
        DEPLOYED,
    ),
    Guard(
        "a state is read with the layout of its own generation",
        "streams/aggregation/changelog.py",
        "every.get(entry.generation)) is not None",
        "every.get(self.generation)) is not None",
        DEPLOYED,
    ),
    Guard(
        "a group that finishes takes the records of its key",
        "streams/ownership/generations.py",
        "            return key in groups.states and",
        "            return key is None and",
        DEPLOYED,
    ),
    Guard(
        "a program that knows no generations halts at their entries",
        "streams/aggregation/entry.py",
        "framed(GENERATION + content if entry.generation else content)",
        "framed(content)",
        DEPLOYED,
    ),
    Guard(
        "compaction writes the states of all generations again",
        "streams/aggregation/changelog.py",
        "for number, each in self._every().items())",
        "for number, each in {self.generation: self.groups}.items())",
        ("tests/unit/aggregation/test_generations.py",),
    ),
    Guard(
        "a conversion that was cut short follows the deployments after it",
        "streams/ownership/switching.py",
        "policy_of((each.policy, policy))",
        "policy_of((each.policy,))",
        DEPLOYED,
    ),
    Guard(
        "two deployments get two numbers",
        "streams/operations/deploying.py",
        "            if before != found:",
        f"            {NEVER}",
        DEPLOY,
    ),
    Guard(
        "an earlier version in a file does not become the newest by itself",
        "streams/operations/deploying.py",
        " or (not options.again and before.number_of(digest) is not None)",
        "",
        DEPLOY,
    ),
    Guard(
        "a rule is kept while a partition needs it",
        "streams/operations/deploying.py",
        "each if each.number >= needed else",
        "each if each.number >= versions[-1].number else",
        DEPLOY,
    ),
    Guard(
        "a result of a group that an earlier rule filled does not name the new rule",
        "streams/ownership/generations.py",
        "            each.rows.under_rule = each.known.version > 0\n",
        "            each.rows.under_rule = True\n",
        ("tests/unit/engine/test_changed_rule.py",),
    ),
    Guard(
        "a value that is the default changes no digest",
        "streams/rules/document.py",
        " if (found := getattr(value, name)) != getattr(usual, name)}",
        " if (found := getattr(value, name)) is not usual}",
        RULE_OF,
    ),
    Guard(
        "how an expression is written changes no digest",
        "streams/rules/document.py",
        "    return normal(parse(text))",
        "    return text if normal(parse(text)) else text",
        RULE_OF,
    ),
    Guard(
        "a schema that the program makes changes no digest",
        "streams/rules/document.py",
        "    if to.avro is not None and to.avro.schema == _own_schema(agent):",
        f"    {NEVER}",
        RULE_OF,
    ),
    Guard(
        "a computed field that the key or a reducer reads is not converted",
        "streams/rules/changes.py",
        "COMPUTED if name in filled else",
        "COMPUTED if not filled else",
        CLASSES,
    ),
    Guard(
        "a reducer of a field that groups do not hold is not converted",
        "streams/rules/changes.py",
        " and any(name in STATS and field == other",
        " and any(name in STATS",
        CLASSES,
    ),
    Guard(
        "missing fields that are now ignored are not converted",
        "streams/rules/changes.py",
        '        elif name == "on_missing" and "ignore" in (one, other) and one != other:',
        f"        el{NEVER}",
        CLASSES,
    ),
    Guard(
        "the groups of an older revision cannot finish where functions are called",
        "streams/rules/changes.py",
        "not (has_functions(old) or has_functions(new))",
        "not has_functions({})",
        CLASSES,
    ),
    Guard(
        "plan refuses what run refuses",
        "streams/operations/planning.py",
        "each for each in CHOICES if each in suited",
        "each for each in CHOICES",
        PLAN,
    ),
    Guard(
        "plan judges no groups that another file filled",
        "streams/operations/planning.py",
        "    if not found.groups.states or found.rule.fingerprint == fingerprint(old):",
        "    if True:",
        PLAN,
    ),
    Guard(
        "plan counts groups whose deadline has passed",
        "streams/operations/planning.py",
        "if groups.due(each) <= now",
        "if groups.due(each) < 0",
        PLAN,
    ),
    Guard(
        "the groups of a key stay uncertain until any group has certainly timed out",
        "streams/shadow/deadlines.py",
        "        return newest.high + min(self._after, self._idle) <= now.low\n",
        "        return newest.low + min(self._after, self._idle) <= now.high\n",
        ("tests/unit/shadow/test_other_timeout.py",),
    ),
    Guard(
        "a group that may have timed out is uncertain",
        "streams/shadow/fold.py",
        "            self._unsure.setdefault(key, self._groups.states[key][FIRST])\n            if",
        "            if",
        ("tests/unit/shadow/test_other_timeout.py",),
    ),
    Guard(
        "two messages of one id that differ are found",
        "streams/shadow/judge.py",
        "        if live.differing:\n",
        "        if False:\n",
        ("tests/unit/shadow/test_audit.py",),
    ),
    Guard(
        "a result that the input does not give is found",
        "streams/shadow/judge.py",
        "            if begin <= first and live.last < end and self._judges(live.key):",
        "            if False:",
        ("tests/unit/shadow/test_audit.py",),
    ),
    Guard(
        "an agent that is not judged counts as uncertain",
        "streams/cli/plan_replay.py",
        'return "uncertain" in wanted if self.found is None',
        "return False if self.found is None",
        ("tests/unit/cli/test_plan_replay.py",),
    ),
)
