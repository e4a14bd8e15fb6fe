"""Addresses of devices: this machine, or a server of TVM's RPC."""

import re
from dataclasses import dataclass

LOCAL = "local"
BUNDLE = "bundle"
"""Stands for a device that no network reaches; nothing is run there from here."""
_SHAPE = re.compile(r"rpc://(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):(?P<port>\d{1,5})(?:/(?P<key>[\w.-]{1,80}))?")
_MOST_PORT = 65535


class AddressError(ValueError):
    """An address that names no device."""


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A server; with a key, a tracker that knows servers of that name."""

    host: str
    port: int
    key: str = ""


def remote_address(device: str) -> RemoteAddress | None:
    """Return where ``device`` is reached; None for this machine. Raises ``AddressError`` for anything else."""
    if device == LOCAL:
        return None
    found = _SHAPE.fullmatch(device)
    if found is None or not 0 < int(found["port"]) <= _MOST_PORT:
        raise AddressError(
            f"device has {device[:80]!r}; needs local, rpc://HOST:PORT (a server) or rpc://HOST:PORT/KEY (a tracker)"
        )
    return RemoteAddress(found["host"].strip("[]"), int(found["port"]), found["key"] or "")
