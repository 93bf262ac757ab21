"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import dynadurable

# These want a library that only some environments have; they are imported where it is there.
OPTIONAL = {"aioboto3", "aiobotocore", "click", "rich", "moto", "aws_cdk", "roto", "croniter", "tzdata"}

MODULES = [
    module.name
    for module in pkgutil.walk_packages(dynadurable.__path__, "dynadurable.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"{error.name} is not installed here")
        raise
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
