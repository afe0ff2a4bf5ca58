"""First on the path of a worker under test: its wall clock is off by the seconds that stand in the file SOAK_CLOCK, a
double."""

import mmap
import os
import struct
import time

true_time = time.time

if "SOAK_CLOCK" in os.environ:
    with open(os.environ["SOAK_CLOCK"], "rb") as file:
        offset = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    time.time = lambda: true_time() + struct.unpack("d", offset)[0]
