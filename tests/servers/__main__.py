"""`make servers`: Kafka and every store for a person, in the foreground until SIGINT or SIGTERM; prints a NAME=URL line
for each."""

import argparse
import signal
import sys
from contextlib import ExitStack

from tests.servers import jars
from tests.servers.program import Unavailable
from tests.servers.shared import PROGRAMS, open_server


def fetch() -> int:
    try:
        jars.kafka()
        jars.mariadb()
        jars.postgres()
        for version in jars.APICURIO:
            jars.apicurio(version)
        jars.kafka_streams()
        jars.avro()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def serve() -> int:
    ends = {signal.SIGINT, signal.SIGTERM}
    # Blocked before any thread exists, so that only sigwait takes them, whenever they come.
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    with ExitStack() as opened:
        for kind in PROGRAMS.values():
            try:
                server = open_server(kind())
            except (Unavailable, RuntimeError) as error:
                print(error, file=sys.stderr)
                return 3
            opened.callback(server.destroy)
            print(f"{kind.variable}={server.url}", flush=True)
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="only fetch what the servers need")
    sys.exit(fetch() if parser.parse_args().fetch else serve())
