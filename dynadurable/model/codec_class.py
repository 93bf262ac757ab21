"""Classes as payloads name them: ``module:Qualname``, for Enums, dataclasses and named tuples only.

What a table says is not trusted. A stored name only ever yields a class of these three kinds; nothing is called but
that class; and a module is imported for it only when its top-level package is already imported in this process, so a
payload cannot pull in whatever happens to be installed. A ``__main__`` module is never imported: that would run a
program.

A class of a program started with ``python -m shop.worker`` is named ``shop.worker:Order`` and not ``__main__:Order``,
so that other processes find it. A class of a bare script (``python worker.py``) has no name that another process could
follow, and is refused.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MAIN_NAMES = ("__main__", "__mp_main__")  # the second is what multiprocessing calls the parent's main module


def class_label(cls: type) -> str:
    """A class as messages show it: ``list``, ``collections.OrderedDict``."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def is_named_tuple(cls: type) -> bool:
    """Whether ``cls`` comes from ``typing.NamedTuple`` or ``collections.namedtuple``, itself or by a base."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def stored_name(cls: type) -> str:
    """``cls`` as ``module:Qualname``.

    Raises:
        ValueError: another process would not find the class under that name; the message says why.
    """
    module_name, qualname = cls.__module__, cls.__qualname__
    if "<locals>" in qualname:
        raise ValueError(f"{class_label(cls)} is defined inside a function; define it at module level")
    if module_name in _MAIN_NAMES:
        module_name = _name_of_main(sys.modules.get(module_name)) or ""
        if not module_name:
            raise ValueError(
                f"{class_label(cls)} is defined in the program that was started, where no other process finds it; "
                "move it to a module of its own, or start the program with python -m"
            )
    if _lookup(_loaded_module(module_name), qualname) is not cls:
        raise ValueError(
            f"{module_name}:{qualname} does not lead back to this class; was it replaced, generated, renamed, "
            "or its module loaded twice?"
        )
    return f"{module_name}:{qualname}"


def find_class(name: str) -> type:
    """The class stored as ``name``.

    Raises:
        ValueError: there is no such class, its package is not imported here, or it is none of the three kinds.
        Exception: whatever importing its module raises.
    """
    module_name, _, qualname = name.partition(":")
    module = _loaded_module(module_name) or _import(module_name)
    found = _lookup(module, qualname)
    if not isinstance(found, type):
        raise ValueError(f"module {module_name} has no class {qualname}")
    if not (issubclass(found, Enum) or dataclasses.is_dataclass(found) or is_named_tuple(found)):
        raise ValueError(f"{name} is neither a dataclass nor an Enum nor a NamedTuple")
    return found


def build_instance(name: str, fields: dict[str, Any]) -> Any:
    """A dataclass or named tuple from its fields. Fields that the class has gained since get their defaults."""
    cls = find_class(name)
    if issubclass(cls, Enum):
        raise ValueError(f"{name} is an Enum, which has no fields")
    if not dataclasses.is_dataclass(cls):
        return cls(**fields)
    known = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(fields.keys() - known.keys())
    if unknown:
        raise ValueError(f"{name} no longer has the field {unknown[0]!r}")
    call: Callable[..., Any] = cls
    instance = call(**{field: value for field, value in fields.items() if known[field].init})
    for field, value in fields.items():
        if not known[field].init:
            object.__setattr__(instance, field, value)
    return instance


def build_member(name: str, member: str) -> Any:
    """An Enum's member by its name."""
    members = _find_enum(name).__members__
    if member not in members:
        raise ValueError(f"{name} has no member {member!r}")
    return members[member]


def build_flag(name: str, bits: int) -> Any:
    """A Flag's member, or a combination of members, by its value."""
    return _find_enum(name)(bits)


def _find_enum(name: str) -> type[Enum]:
    cls = find_class(name)
    if not issubclass(cls, Enum):
        raise ValueError(f"{name} is not an Enum")
    return cls


def _name_of_main(main: ModuleType | None) -> str | None:
    """The importable name of the started program, if it was started by name. ``pkg.__main__`` does not count."""
    name = getattr(getattr(main, "__spec__", None), "name", None)
    return name if isinstance(name, str) and "__main__" not in name.split(".") else None


def _loaded_module(name: str) -> ModuleType | None:
    # The started program stands in sys.modules as __main__ only; looking its own name up there would miss it, and
    # importing it by that name would make every class a second time.
    main = sys.modules.get("__main__")
    return main if name and _name_of_main(main) == name else sys.modules.get(name)


def _import(name: str) -> ModuleType:
    if not _MODULE_NAME.fullmatch(name) or "__main__" in name.split("."):
        raise ValueError(f"{name!r} is not the name of a module that may be imported")
    package = name.partition(".")[0]
    if package not in sys.modules:
        raise ValueError(
            f"the package {package} is not imported in this process; import the module {name} where the job is defined"
        )
    return importlib.import_module(name)


def _lookup(module: ModuleType | None, qualname: str) -> object:
    """Follows ``Outer.Inner`` through namespaces alone: no module or class gets to run code of its own."""
    found: object = module
    for part in qualname.split("."):
        if not isinstance(found, (ModuleType, type)):
            return None
        found = vars(found).get(part)
    return found
