"""Which table, and what its keys are called: the settings that let the toolkit live in a table somebody already has."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigurationError

MAX_PREFIX_BYTES = 128
OWN_TTL_ATTRIBUTE = "dd_ttl"
"""Where expiry is noted in a table whose native TTL watches another attribute, or none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """The table's name and key attributes.

    ``ttl`` is the table's TTL attribute; ``None`` where native TTL is off or belongs to something else, then the
    cleaner deletes what has expired. ``prefix`` goes before every partition key, so that several apps share a table.

    >>> TableSchema(table="shop", partition_key="PK", sort_key="SK", prefix="jobs/")
    TableSchema(table='shop', partition_key='PK', sort_key='SK', ttl='ttl', prefix='jobs/')
    """

    table: str
    partition_key: str = "pk"
    sort_key: str = "sk"
    ttl: str | None = "ttl"
    prefix: str = ""

    def __post_init__(self) -> None:
        names = {"table": self.table, "partition_key": self.partition_key, "sort_key": self.sort_key}
        if self.ttl is not None:
            names["ttl"] = self.ttl
        for field, name in names.items():
            if not isinstance(name, str) or not name:
                or_none = " (or None)" if field == "ttl" else ""
                raise ConfigurationError(f"{field} must be a non-empty string{or_none}, not {name!r}")
        if not isinstance(self.prefix, str):
            raise ConfigurationError(f"prefix must be a string, not {self.prefix!r}")
        for field, name in {**names, "prefix": self.prefix}.items():
            if any("\ud800" <= letter <= "\udfff" for letter in name):
                raise ConfigurationError(f"{field} holds a lone surrogate, which UTF-8 cannot store: {name!r}")
        used = [self.partition_key, self.sort_key, self.ttl_attribute]
        if len(set(used)) != 3 or any(name.startswith("dd_") for name in used[:2]):
            raise ConfigurationError(
                f"partition_key, sort_key and ttl must be three names, none beginning with 'dd_', not {used}"
            )
        if len(self.prefix.encode()) > MAX_PREFIX_BYTES:
            raise ConfigurationError(f"prefix may take {MAX_PREFIX_BYTES} bytes, {self.prefix!r} takes more")

    @property
    def ttl_attribute(self) -> str:
        """The attribute that terminal items carry, in whole epoch seconds."""
        return self.ttl or OWN_TTL_ATTRIBUTE
