"""What is said of errors that come before any request is sent."""

from __future__ import annotations

import boto3
import pytest
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES as VARIABLES

from dynadurable import App, ConfigurationError


def test_a_missing_region_names_the_variable_that_boto3_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(ConfigurationError, match=VARIABLES["region"][1]):
        App("shop", session=boto3.Session()).check_table()
