"""First on the path of the processes of a twin. Installs its edits, then runs the next sitecustomize on the path, if
any."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

import edits

if "TWIN_EDITS" in os.environ:
    edits.install(os.environ)

here = Path(__file__).resolve().parent
following = PathFinder.find_spec("sitecustomize", [place for place in sys.path if Path(place).resolve() != here])
if following is not None and following.loader is not None:
    following.loader.exec_module(module_from_spec(following))
