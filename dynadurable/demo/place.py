"""Where the Krabber example lies: in a wheel beside this file, in a checkout in ``examples/``. The same files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from ..errors import ConfigurationError, ExtraMissingError

HERE = Path(__file__).resolve().parent


def examples_folder() -> Path:
    """The folder to put on the path, so that ``krabber`` can be imported.

    Raises:
        ConfigurationError: this installation has come without the examples.
    """
    for folder in (HERE / "examples", HERE.parents[1] / "examples"):
        if (folder / "krabber").is_dir():
            return folder
    raise ConfigurationError("the example that the demo runs is missing from this installation; install it anew")


def put_on_path() -> None:
    """From here on ``import krabber`` works.

    Raises:
        ExtraMissingError: what the example needs is not installed.
    """
    if importlib.util.find_spec("networkx") is None:
        raise ExtraMissingError("networkx", extra="demo")
    folder = str(examples_folder())
    if folder not in sys.path:
        sys.path.insert(0, folder)
