"""Guards of the proof that a record is one of the app."""

from tests.mutation.guard import Guard

E = "tests/unit/engine/"
MAC = (f"{E}test_mac.py",)

GUARDS = (
    Guard(
        "records need a MAC",
        "streams/reading/proof.py",
        "return self.mac if 0 <= self.since <= record.offset() else None",
        "return None",
        MAC,
    ),
    Guard(
        "a record that another program marks for another agent is not passed over",
        "streams/reading/addressed.py",
        " or not _proven(record, proof)",
        "",
        MAC,
    ),
    Guard(
        "a forged time mark is left out",
        "streams/reading/receive.py",
        "        if record.value() is None and any(name == STATE for name, _ in pairs):\n            return ()\n",
        "",
        MAC,
    ),
    Guard(
        "forged shards push out no genuine one",
        "streams/reading/receive.py",
        "if name.startswith(UNPROVEN) == unproven]",
        "]",
        MAC,
    ),
    Guard(
        "a MAC covers the value",
        "streams/contracts/mac.py",
        "] = topic, partition, key, value\n",
        "] = topic, partition, key, None\n",
        MAC,
    ),
    Guard(
        "a MAC covers topic and partition",
        "streams/contracts/mac.py",
        "] = topic, partition, key, value\n",
        "] = None, None, key, value\n",
        MAC,
    ),
    Guard(
        "names of headers that any writer makes up are not all remembered",
        "streams/contracts/mac.py",
        "and len(PLACES) < MOST_NAMES ",
        "",
        MAC,
    ),
    Guard(
        "no long name of a header is remembered", "streams/contracts/mac.py", " and len(name) <= LONGEST_NAME", "", MAC
    ),
    Guard(
        "records of an earlier release are believed for an hour",
        "streams/ownership/beginning.py",
        "    if mac is None or now < mac.since:",
        "    if mac is None:",
        MAC,
    ),
    Guard(
        "what a partition holds before records need a MAC needs none",
        "streams/ownership/beginning.py",
        "    return 0 if known is None else facts.high",
        "    return 0",
        MAC,
    ),
    Guard(
        "the proof begins under a claim that goes on",
        "streams/ownership/owner.py",
        "            self._begin_proof()\n",
        "            pass\n",
        MAC,
    ),
    Guard(
        "all processes have one key",
        "streams/versions/mac_keys.py",
        "    if known is None:\n        _write(store, claim, _first(",
        "    if claim:\n        _write(store, claim, _first(",
        (
            "tests/contracts/test_mac_keys.py::test_a_process_that_looked_before_the_first_one_had_committed_keeps_its_key",
        ),
    ),
    Guard(
        "what a handler sends has no header of Sluicegate of the message that it received",
        "streams/handlers/values.py",
        "        if name.startswith(OWN):",
        "        if False:",
        MAC,
    ),
    Guard(
        "dead retry needs a MAC where it cannot compare",
        "streams/operations/dead/dead_records.py",
        "None if letter.proven or _is_record(letter) else UNPROVEN",
        "None",
        (f"{E}test_dead_records.py",),
    ),
    Guard(
        "dead retry needs a MAC of a letter whose record is gone",
        "streams/operations/dead/dead_records.py",
        "        return letter if letter.proven else UNPROVEN\n",
        "        return letter\n",
        (f"{E}test_dead_records.py",),
    ),
    Guard(
        "a forged letter does not stand for the genuine one",
        "streams/operations/dead/dead_letters.py",
        "and (letter.id, letter.proven) not in known:",
        "and letter.id not in {id for id, _ in known}:",
        (f"{E}test_dead_records.py",),
    ),
    Guard(
        "a copy of a letter has its record sent once",
        "streams/operations/dead/dead_records.py",
        "        name = letter.id, letter.place\n",
        '        name = letter.id, f"{letter.place} {letter.proven}"\n',
        (f"{E}test_dead_records.py",),
    ),
)
