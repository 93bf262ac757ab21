"""From ``module:app``, as commands and deployments name it, to the app."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from .app import App
from .errors import ConfigurationError


def locate_app(name: str) -> App:
    """The app that ``module:attribute`` names; the module is imported. Its jobs are defined by that import.

    Raises:
        ConfigurationError: the name has another form, or there is no such module, attribute or app. What the module
            itself raises while it is imported is passed on as it is.

    >>> locate_app("shop.jobs:app")  # doctest: +SKIP
    """
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise ConfigurationError(f"an app is named as module:attribute, such as shop.jobs:app, not {name!r}")
    if not _exists(module_name):
        raise ConfigurationError(f"there is no module {module_name!r}; is its folder on the import path?")
    found: object = importlib.import_module(module_name)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        raise ConfigurationError(f"{attribute!r} of module {module_name!r} is not a dynadurable App but {found!r}")
    return found


def _exists(module_name: str) -> bool:
    """Whether there is such a module; a failing import inside one of its parents is not a missing module."""
    if module_name.startswith("."):
        return False  # relative to nothing
    try:
        return find_spec(module_name) is not None
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            return False
        raise
    except ValueError:  # "__main__" and its like have no spec
        return False
