"""Asks Avro for Java again and writes its answers."""

import gzip

from tests.unit.schemas.avro_java import ANSWERS, PAIRS, asked, pair

ANSWERS.write_bytes(gzip.compress("\n".join(asked([pair(seed) for seed in range(PAIRS)])).encode(), mtime=0))
print(f"{ANSWERS.name}: {ANSWERS.stat().st_size:,} bytes")
