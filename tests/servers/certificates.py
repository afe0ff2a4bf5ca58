"""Certificates of our own, made when a test asks: an authority, and what it signs for servers and clients."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Certificate:
    """A folder with `ca.pem` (who signed it), `cert.pem`, `key.pem` and `both.pem`. `user` owns the files: PostgreSQL
    insists."""

    folder: Path
    user: int | None = None

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def cert(self) -> Path:
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key.pem"

    @property
    def both(self) -> Path:
        return self.folder / "both.pem"


@dataclass(frozen=True)
class Authority:
    """Made by `authority`; its key stays in its folder."""

    folder: Path

    @property
    def cert(self) -> Path:
        return self.folder / "authority.pem"

    def certified(self, name: str, days: int = 2, user: int | None = None) -> Certificate:
        """A certificate for localhost, in the folder `name`, for so many days (-1: it ended yesterday). Issued again
        over the one that is there, it keeps the key."""
        made = Certificate(self.folder / name, user)
        made.folder.mkdir(exist_ok=True)
        request, extensions = made.folder / "request", made.folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost\n")
        if not made.key.exists():
            _openssl("req", *KEY, "-subj", "/CN=localhost", "-keyout", made.key, "-out", request)
        signer = ("-CA", self.cert, "-CAkey", self.folder / "authority.key")
        _openssl("x509", "-req", "-in", request, *signer, "-days", str(days), "-extfile", extensions, "-out", made.cert)
        made.both.write_bytes(made.key.read_bytes() + made.cert.read_bytes())
        made.authority.write_bytes(self.cert.read_bytes())
        made.folder.chmod(0o711)
        for file in (made.key, made.both):
            file.chmod(0o600)
        for file in (made.key, made.both, made.cert, made.authority) if user is not None else ():
            os.chown(file, user, user)
        return made

    def locked(self, name: str, password: str) -> Certificate:
        """One whose key is encrypted."""
        made = self.certified(name)
        opened = made.key.rename(made.folder / "opened.pem")
        _openssl("ec", "-in", opened, "-aes256", "-passout", f"pass:{password}", "-out", made.key)
        opened.unlink()
        made.both.write_bytes(made.key.read_bytes() + made.cert.read_bytes())
        made.key.chmod(0o600)
        return made

    def end(self) -> None:
        """Its own certificate ended yesterday, under the same key and name."""
        key = self.folder / "authority.key"
        _openssl("x509", "-in", self.cert, "-signkey", key, "-days", "-1", "-out", self.cert.with_suffix(".ended"))
        self.cert.with_suffix(".ended").replace(self.cert)


def authority(folder: Path) -> Authority:
    """A new one, in a folder of its own, which is made."""
    folder.mkdir()
    folder.chmod(0o711)
    made = Authority(folder)
    purpose = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
    files = ("-keyout", folder / "authority.key", "-out", made.cert)
    _openssl("req", "-x509", *KEY, "-subj", f"/CN={folder.name}", *purpose, "-days", "2", *files)
    return made


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
