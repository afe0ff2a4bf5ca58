"""The packages of the npm registry of which the page has files: streams/console/page/vendor/packages.json."""

from pathlib import Path

import msgspec

VENDOR = Path(__file__).resolve().parents[3] / "streams" / "console" / "page" / "vendor"


class VendoredFile(msgspec.Struct):
    """The path of a file inside its package, and its digest."""

    path: str
    sha256: str


class VendoredPackage(msgspec.Struct):
    """A package with the files of it that the page has, by our names. `integrity` is the registry's digest."""

    name: str
    version: str
    license: str
    integrity: str
    files: dict[str, VendoredFile]


def packages() -> list[VendoredPackage]:
    return msgspec.json.decode((VENDOR / "packages.json").read_bytes(), type=list[VendoredPackage])
