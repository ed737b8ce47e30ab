"""Connects to a Plantroom server: its address, the credentials, and the details of its errors."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

# Detects a broken connection within 40 s. By default, gRPC stops after two pings on an idle stream and waits a minute for the response.
# After a failure, gRPC reconnects after at most 5 s.
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


@dataclass(frozen=True)
class Server:
    """The address of a server, and the API key for it."""

    address: str
    ca: bytes
    api_key: str = field(repr=False)
    organization_id: str

    def credentials(self) -> grpc.ChannelCredentials:
        """Returns credentials: TLS with the CA of the server, and the key and organization for every call."""
        metadata = (("x-api-key", self.api_key), ("x-organization-id", self.organization_id))
        key = grpc.metadata_call_credentials(lambda _, callback: callback(metadata, None))
        return grpc.composite_channel_credentials(grpc.ssl_channel_credentials(self.ca), key)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --address and --ca. Key and organization come from the environment, because other users can see the command line."""
    parser.add_argument("--address", default="localhost:50051", help="host:port of the gRPC port (%(default)s)")
    parser.add_argument("--ca", default="data/tls/ca.pem", help="the CA certificate of the server, PEM (%(default)s)")


def server_of(arguments: argparse.Namespace) -> Server:
    """Returns the server from the arguments and the environment. Exits the program if a value is missing."""
    try:
        ca = Path(arguments.ca).read_bytes()
        return Server(arguments.address, ca, os.environ["PLANTROOM_API_KEY"], os.environ["PLANTROOM_ORGANIZATION_ID"])
    except KeyError as missing:
        raise SystemExit(f"set {missing.args[0]}: the server prints it on its first start") from None
    except OSError as error:
        raise SystemExit(f"--ca {arguments.ca} cannot be read: {error.strerror}") from error


class PlantroomError(Exception):
    """A failed call with the error details of the server."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.status: str = error.code().name
        self.message: str = error.details() or ""
        # snake_case, part of the API; empty if the error is not from the server (a broken connection, a proxy).
        self.reason = ""
        # Pairs of an invalid field and its description.
        self.violations: list[tuple[str, str]] = []
        # The ID of this request in the server log.
        self.request_id = ""
        # Delay before a retry; None if the server did not send one.
        self.retry_after: timedelta | None = None
        status = rpc_status.from_call(error)
        for detail in status.details if status else ():
            self._read(detail)
        super().__init__(f"{self.status} {self.reason}: {self.message}")

    def _read(self, detail) -> None:
        """Reads one google.protobuf.Any of grpc-status-details-bin."""
        info, bad, request, retry = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest(), error_details_pb2.RequestInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            self.reason = info.reason
        elif detail.Unpack(bad):
            self.violations = [(violation.field, violation.description) for violation in bad.field_violations]
        elif detail.Unpack(request):
            self.request_id = request.request_id
        elif detail.Unpack(retry):
            self.retry_after = retry.retry_delay.ToTimedelta()
