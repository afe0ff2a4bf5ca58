"""Guards of the proof where commands read records again, and of the rotation of keys."""

from tests.mutation.guard import Guard

OFFLINE = ("tests/unit/engine/test_offline_proof.py",)
READ_AGAIN = ("tests/fuzz/test_read_again.py::test_a_letter_that_no_agent_wrote_keeps_no_command_from_the_others",)
ROTATED = ("tests/unit/engine/test_key_rotation.py",)
PLAN = "streams/operations/rebuilding/rebuild_plan.py"
EXPLAINING, FOLD = "streams/operations/explaining.py", "streams/shadow/fold.py"
LIVE, KEYS = "streams/versions/live_keys.py", "streams/versions/mac_keys.py"

GUARDS = (
    Guard(
        "a rebuild believes headers of the input as the worker did",
        PLAN,
        "            source.known.published.proof = self._proofs.lost_input(",
        "            self._proofs.lost_input(",
        OFFLINE,
    ),
    Guard(
        "a rebuild leaves out results that the app did not sign",
        "streams/shadow/published.py",
        "        if not proof.believes(record):",
        "        if False:",
        ("tests/unit/engine/test_offline_proof.py::test_a_rebuild_leaves_out_forged_results_and_records_of_no_sender",),
    ),
    Guard(
        "a rebuild asks no proof of keys that were lost with the store",
        PLAN,
        "self._proofs.mac is None or makers != {self._store.incarnation}",
        "self._proofs.mac is None",
        OFFLINE,
    ),
    Guard(
        "a shadow believes headers of the input as the worker did",
        "streams/operations/replaying/shadowing.py",
        "                self._proofs.input(partition),\n",
        "",
        OFFLINE,
    ),
    Guard(
        "a shadow leaves out results that the app did not sign",
        "streams/shadow/published.py",
        "        if not proof.believes(record):",
        "        if False:",
        ("tests/unit/engine/test_offline_proof.py::test_a_shadow_leaves_out_forged_results",),
    ),
    Guard(
        "explain believes headers of the input as the worker did",
        EXPLAINING,
        "RecordGate(partition, agent, ids, HeaderProof() if proof is None else proof)",
        "RecordGate(partition, agent, ids, HeaderProof())",
        OFFLINE,
    ),
    Guard(
        "explain prefers the output that the app signed",
        EXPLAINING,
        "        proven = mac is None or mac.proves(record)",
        "        proven = True",
        OFFLINE,
    ),
    Guard(
        "a MAC covers what a result says of its records",
        "streams/contracts/mac.py",
        "del values[CODE:]",
        "del values[BEFORE + 3 :]",
        OFFLINE,
    ),
    Guard(
        "explain reads the writer's header of a name, which the MAC covers",
        EXPLAINING,
        "        named = by_name(headers(record))",
        "        named = MessageHeaders(headers(record))",
        OFFLINE,
    ),
    Guard(
        "eval and the sample of check believe no forged addressee",
        "streams/operations/sampling.py",
        "        if not for_us([record], partition, believes):",
        "        if not for_us([record], partition):",
        OFFLINE,
    ),
    Guard(
        "eval believes no forged addressee",
        "streams/operations/answering.py",
        "record.topic(), record.partition()), proof):",
        "record.topic(), record.partition())):",
        OFFLINE,
    ),
    Guard(
        "eval reads no forged stamp",
        "streams/operations/answering.py",
        "    return without_steering(record) if steered else record",
        "    return record",
        OFFLINE,
    ),
    Guard(
        "replay --rewind counts no forged message as sent",
        "streams/operations/replaying/rewinding.py",
        "filter(self._mac.proves, records)",
        "records",
        OFFLINE,
    ),
    Guard(
        "dead retry counts no forged record as sent",
        "streams/operations/dead/dead_letters.py",
        "filter(mac.proves, source.since(starts))",
        "source.since(starts)",
        OFFLINE,
    ),
    Guard(
        "a process reads the keys again before it refuses a record",
        "streams/contracts/mac.py",
        " or (self._read_again() and self._verifies(content, code))",
        "",
        ROTATED,
    ),
    Guard(
        "forged MACs ask the store only now and then",
        LIVE,
        "        if now - self._read_at < READ_EVERY:",
        "        if False:",
        ROTATED,
    ),
    Guard(
        "a new key signs when every process can know it",
        KEYS,
        "        begins = now + SIGNS_AFTER",
        "        begins = now",
        ROTATED,
    ),
    Guard(
        "earlier keys prove for as long as they are kept",
        KEYS,
        "_ending(key, begins, begins + SWITCHED + keep)",
        "_ending(key, begins, begins)",
        ROTATED,
    ),
    Guard(
        "a key that proves no more is not used",
        KEYS,
        "        proving = [key for key in self.keys if key.until > now]",
        "        proving = [*self.keys]",
        ROTATED,
    ),
    Guard(
        "what a key signed that proves no more is read as before there was a key",
        KEYS,
        "max(self.since, *ended, 0.0)",
        "self.since",
        ROTATED,
    ),
    Guard(
        "forged numbers of a lane are counted",
        "streams/reading/proof.py",
        " or is_lane_of(app, shard)",
        "",
        ("tests/unit/engine/test_mac.py",),
    ),
    Guard(
        "a forged letter names no number that a client cannot take",
        "streams/contracts/headers.py",
        " and len(number) < 10 and len(offset) <= _LONGEST):",
        "):",
        READ_AGAIN,
    ),
    Guard(
        "a forged letter names the place that its agent read",
        "streams/operations/dead/dead_letters.py",
        "    if DEAD_READ in named and named.place(DEAD_READ) is None:",
        "    if False:",
        READ_AGAIN,
    ),
    Guard(
        "a forged letter says no endless number of attempts",
        "streams/operations/dead/dead_causes.py",
        " and len(attempts) < 10 else None",
        " else None",
        READ_AGAIN,
    ),
)
