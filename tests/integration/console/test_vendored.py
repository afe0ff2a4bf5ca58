"""The libraries of the page are byte for byte those of the packages that they name."""

from pathlib import Path

import pytest

from tests.integration.console.npm import packed
from tests.unit.console.vendored import VENDOR, VendoredPackage, packages


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_a_checked_in_file_is_the_one_of_its_package(package: VendoredPackage, tmp_path: Path) -> None:
    published = packed(package.name, package.version, package.integrity, tmp_path)
    for name, file in package.files.items():
        assert (VENDOR / name).read_bytes() == published[file.path]
