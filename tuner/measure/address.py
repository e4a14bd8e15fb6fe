"""Addresses of devices: this machine, or a server of TVM's RPC."""

import re
from dataclasses import dataclass

LOCAL = "local"
BUNDLE = "bundle"
"""Address of a device that cannot be reached from here and runs a bundle."""
_SHAPE = re.compile(r"rpc://(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):(?P<port>\d{1,5})(?:/(?P<key>[\w.-]{1,80}))?")
_MOST_PORT = 65535


class AddressError(ValueError):
    """A malformed device address."""


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A TVM RPC server; with a key, a tracker that assigns servers of that name."""

    host: str
    port: int
    key: str = ""


def remote_address(device: str) -> RemoteAddress | None:
    """Parse a device's address; None for this machine. Raises ``AddressError`` for anything else."""
    if device == LOCAL:
        return None
    parts = _SHAPE.fullmatch(device)
    if parts is None or not 0 < int(parts["port"]) <= _MOST_PORT:
        raise AddressError(
            f"device has {device[:80]!r}; needs local, rpc://HOST:PORT (a server) or rpc://HOST:PORT/KEY (a tracker)"
        )
    return RemoteAddress(parts["host"].strip("[]"), int(parts["port"]), parts["key"] or "")
