"""Asks Kafka Streams again and writes its answers."""

import gzip

from tests.unit.windows.kafka_streams import KINDS, answers, asked, logs

for kind in KINDS:
    file = answers(kind)
    file.write_bytes(gzip.compress("\n".join(asked(logs(kind))).encode(), mtime=0))
    print(f"{file.name}: {file.stat().st_size:,} bytes")
