"""Makes boto3 clients: once per process, under a lock, never from boto3's shared default session, never over a fork."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from ..errors import ConfigurationError
from ..forks import renew_after_fork
from .replies import whole_replies_only

CONNECT_TIMEOUT_SECONDS = 3
READ_TIMEOUT_SECONDS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """How to reach DynamoDB: clients or sessions where the app has its own, else the usual sources of boto3."""

    client: Any = None
    session: Any = None
    region: str | None = None
    endpoint_url: str | None = None
    aio_client: Any = None
    aio_session: Any = None
    max_connections: int = 64


class Clients:
    """The client of this process; a forked child makes its own, with connections of its own."""

    session_lock = threading.Lock()
    """Held while a client is made: making clients from one session is not thread-safe in botocore."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._client: Any = whole_replies_only(settings.client)
        renew_after_fork(self)

    def get(self) -> Any:
        """The client."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = self._make()
        return self._client

    def after_fork(self) -> None:
        """Leave the parent's sockets alone: its replies must not reach us, nor ours the parent."""
        self._lock = threading.Lock()
        Clients.session_lock = threading.Lock()
        if self.settings.client is None:
            self._client = None
            return
        endpoint = getattr(self.settings.client, "_endpoint", None)  # no public way; a stand-in has no connections
        if endpoint is not None:
            endpoint.http_session.close()  # new ones open by themselves

    def _make(self) -> Any:
        with Clients.session_lock:
            return self._from(self.settings.session or boto3.Session())

    def _from(self, session: Any) -> Any:
        try:
            client = session.client(
                "dynamodb",
                region_name=self.settings.region,
                endpoint_url=self.settings.endpoint_url,
                config=client_config(self.settings.max_connections),
            )
        except ValueError as error:  # botocore's word for an endpoint that is no address
            raise ConfigurationError(f"no client can be made of these settings: {error}") from error
        return whole_replies_only(client)


def client_config(max_connections: int, kind: type[Config] = Config) -> Config:
    """One try per request: the driver retries, so that it knows what may have been applied."""
    return kind(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=max_connections,
        tcp_keepalive=True,
    )
