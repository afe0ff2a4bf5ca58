"""The libraries of the page: each file is named with its package, version, licence and digest."""

from hashlib import sha256

from tests.unit.console.vendored import VENDOR, packages


def test_each_file_has_the_digest_that_is_written_beside_it() -> None:
    written = {name: file.sha256 for package in packages() for name, file in package.files.items()}
    there = {path.name: sha256(path.read_bytes()).hexdigest() for path in VENDOR.iterdir()}
    there.pop("packages.json")
    assert there == written


def test_each_package_has_its_licence_and_a_version() -> None:
    for package in packages():
        assert f"{package.name}.license.txt" in package.files
        assert package.license in ("MIT", "Apache-2.0")
        assert package.version.replace(".", "").isdigit()
        assert package.integrity.startswith("sha512-")
