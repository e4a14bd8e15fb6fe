"""Handshake with a server or tracker of TVM's RPC before a session: TVM's own waits for an answer without end."""

import socket
import struct

from tvm.rpc import base

from dsascape.tuner.measure.address import RemoteAddress
from dsascape.wording import count

_NUMBER = struct.Struct("<i")
_NO_KEY = b"client:?"
"""Key that no server has: it refuses, and begins no session."""


def greet(address: RemoteAddress, patience_s: int = 60) -> None:
    """Raise ``ConnectionError`` unless a server of TVM's RPC answers there, or, for an address with a key, a tracker.

    A server answers one client after the other. ``patience_s``: seconds to wait for an answer.
    """
    what = "tracker" if address.key else "server"
    greeting = _NUMBER.pack(base.RPC_TRACKER_MAGIC)
    expected = base.RPC_TRACKER_MAGIC
    if not address.key:
        greeting = _NUMBER.pack(base.RPC_MAGIC) + _NUMBER.pack(len(_NO_KEY)) + _NO_KEY
        expected = base.RPC_CODE_MISMATCH
    try:
        with socket.create_connection((address.host, address.port), patience_s) as peer:
            peer.sendall(greeting)
            answer = base.recvall(peer, _NUMBER.size)
    except TimeoutError:
        busy = "" if address.key else ", or it serves another client"
        waited = f"no answer within {count(patience_s, 'second')}"
        raise ConnectionError(f"{waited}: no {what} of TVM's RPC is there{busy}") from None
    if _NUMBER.unpack(answer) != (expected,):
        raise ConnectionError(f"what answers there is no {what} of TVM's RPC")
