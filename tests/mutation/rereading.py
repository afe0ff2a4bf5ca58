"""Guards of deployments with the policy `rewind`."""

from tests.mutation.guard import NEVER, Guard

STEPS = ("tests/unit/engine/test_rereading.py",)
HISTORIES = ("tests/unit/engine/test_deployments.py",)
POLICY = ("tests/unit/engine/test_rewind_policy.py",)

GUARDS = (
    Guard(
        "a record below the offset of the change counts only if a group waits for it",
        "streams/ownership/rereading.py",
        "elif groups.states and _took(groups, rule, record):",
        "elif _took(groups, rule, record) or record:",
        STEPS,
    ),
    Guard(
        "a record before the first one of the group does not belong to it",
        "streams/ownership/rereading.py",
        " or offset < state[FIRST]:",
        ":",
        STEPS,
    ),
    Guard(
        "the commit says which records of a group were read again",
        "streams/ownership/rereading.py",
        "        groups.touched[key] = state\n",
        "",
        STEPS,
    ),
    Guard(
        "the store holds how many records of a group were read again",
        "streams/ownership/rereading.py",
        "        state[SEEN] = unread_ - 1 - state[COUNT]\n",
        "",
        STEPS,
    ),
    Guard(
        "records that are not those of the group halt the partition",
        "streams/ownership/rereading.py",
        "    if first != (offset == state[FIRST]) or last != (offset == state[LAST]):",
        f"    {NEVER}",
        STEPS,
    ),
    Guard(
        "a group whose records are gone halts the partition",
        "streams/ownership/rereading.py",
        "            _check_empty(groups, until)\n",
        "",
        STEPS,
    ),
    Guard(
        "a record that the earlier rule leaves out is passed over",
        "streams/ownership/rereading.py",
        "    accept(probe, taken(probe, (record,)), 0.0)\n",
        "    accept(probe, (record,), 0.0)\n",
        STEPS,
    ),
    Guard(
        "a record that was refused does not stop the partition when it is read again",
        "streams/ownership/rereading.py",
        '    rule.on_error = OnError(decode="skip", expression="skip")\n',
        "",
        STEPS,
    ),
    Guard(
        "after the last group no record is judged under the earlier rule",
        "streams/ownership/rereading.py",
        "elif groups.states and _took",
        "elif _took",
        STEPS,
    ),
    Guard(
        "a row below what Kafka was told lost no writes while records are read again",
        "streams/ownership/checks.py",
        "    if facts.committed > _reached(claim) or",
        "    if facts.committed > claim.offset or",
        STEPS,
    ),
    Guard(
        "a log that ends below the offset of the change was truncated",
        "streams/ownership/checks.py",
        "    if (reached := _reached(claim)) > facts.high:",
        "    if (reached := claim.offset) > facts.high:",
        POLICY,
    ),
    Guard(
        "a generation that is read again stays in the row until the offset of the change",
        "streams/ownership/generations.py",
        " and offset >= self.known.until\n",
        "\n",
        STEPS,
    ),
    Guard(
        "records below the offset of the change are passed over after a drop, too",
        "streams/ownership/generations.py",
        "            if generation.known.until >= 0:  # even",
        "            if generation.known.policy == REWIND:  # even",
        STEPS,
    ),
    Guard(
        "a group that waits to be read again does not time out",
        "streams/ownership/generations.py",
        "                generation.groups.heap = []  # its groups do not time out\n",
        "",
        STEPS,
    ),
    Guard(
        "a group that waits to be read again does not fire by a later deployment",
        "streams/rules/versions.py",
        "(policy == FLUSH and not rewound)",
        "policy == FLUSH",
        STEPS,
    ),
    Guard(
        "the commit that changes the version lowers the offset",
        "streams/ownership/claiming/takeover.py",
        "        changes = Changes(offset, epoch, trying=owner.claim.trying, source=owner.source)",
        "        offset = max(offset, owner.claim.offset)\n"
        "        changes = Changes(offset, epoch, trying=owner.claim.trying, source=owner.source)",
        STEPS,
    ),
    Guard(
        "a record that is in a result is not a dead letter when its batch is read again",
        "streams/ownership/owner.py",
        "        if elsewhere or self.setting",
        "        if self.setting",
        STEPS,
    ),
    Guard(
        "a group with records that count as duplicates is not read again",
        "streams/rules/rewindable.py",
        "    if old.dedupe is not None or new.dedupe is not None:",
        f"    {NEVER}",
        STEPS,
    ),
    Guard(
        "no partition begins to read again before it is at the newest version",
        "streams/operations/replaying/rewind_check.py",
        " or source.version != before.number:",
        ":",
        POLICY,
    ),
    Guard(
        "no partition begins to read again that a worker of an earlier version may claim first",
        "streams/operations/replaying/rewind_check.py",
        "*self._unclaimed(old, mine), ",
        "",
        POLICY,
    ),
    Guard(
        "no partition begins to read again while it has an older generation",
        "streams/operations/replaying/rewind_check.py",
        "        if source.older:",
        f"        {NEVER}",
        POLICY,
    ),
    Guard(
        "a group that was converted is not read again",
        "streams/operations/replaying/rewind_check.py",
        "state[FIRST] < source.began:",
        "state[FIRST] < 0:",
        POLICY,
    ),
    Guard(
        "a deployment reads the records of the groups before it is recorded",
        "streams/operations/replaying/rewind_check.py",
        "self._unreadable(contents, place) or self._mismatch(contents)",
        "self._unreadable(contents, place)",
        POLICY,
    ),
)
