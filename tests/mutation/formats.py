"""Guards of the formats of records."""

from tests.mutation.guard import NEVER, Guard

STRICT = ("tests/unit/schemas/test_avro.py",)

GUARDS = (
    Guard(
        "a negative branch of a union is undecodable",
        "schemas/avro_strict.py",
        "        if not 0 <= index < most:",
        "        if index >= most:",
        STRICT,
    ),
    Guard(
        "a negative symbol of an enum is undecodable",
        "schemas/avro_strict.py",
        "        if not 0 <= index < symbols:",
        "        if index >= symbols:",
        STRICT,
    ),
    Guard("an int has 32 bits", "schemas/avro_strict.py", "    if found >> bits:", f"    {NEVER}", STRICT),
    Guard("a number ends", "schemas/avro_strict.py", "        if shift >= bits:", f"        {NEVER}", STRICT),
    Guard("a boolean is 0 or 1", "schemas/avro_strict.py", "    if value[at] > 1:", f"    {NEVER}", STRICT),
    Guard(
        "a time of day is not negative",
        "schemas/avro_strict.py",
        "        if not 0 <= found < day:",
        "        if found >= day:",
        STRICT,
    ),
    Guard("a decimal has a byte", "schemas/avro_strict.py", "    if value[at] == 0:", f"    {NEVER}", STRICT),
)
