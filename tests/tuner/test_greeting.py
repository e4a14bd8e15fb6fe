"""What answers at an address is a server or tracker of TVM's RPC, or it is said at once that it is none."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("tvm", reason="TVM is not installed: pip install 'dsascape[tvm]'")

from dsascape.tuner.measure.address import RemoteAddress
from dsascape.tuner.on_device.greeting import greet
from tests.tuner.servers import Server, free_port

pytestmark = [pytest.mark.tvm, pytest.mark.usefixtures("forked_children")]

Answer = Callable[[socket.socket], object]


@contextmanager
def peer(answer: Answer) -> Iterator[int]:
    """Serve one client on a port of this machine."""
    asked = threading.Event()

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            answer(client)
            asked.wait(5)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield int(listening.getsockname()[1])
        asked.set()
        thread.join()


@pytest.mark.parametrize("key", ["", "board"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: None, "no answer within 1 second: no (server|tracker) of TVM's RPC is there"),
        (lambda client: client.sendall(b"HTTP/1.1 400"), "what answers there is no (server|tracker) of TVM's RPC"),
        (lambda client: client.sendall(bytes(4096)), "what answers there is no (server|tracker) of TVM's RPC"),
        (lambda client: client.shutdown(socket.SHUT_RDWR), "connection reset"),
    ],
)
def test_another_peer_is_said_to_be_none(answer: Answer, message: str, key: str) -> None:
    with peer(answer) as port, pytest.raises(OSError, match=message):
        greet(RemoteAddress("127.0.0.1", port, key), patience_s=1)


def test_nobody_refuses() -> None:
    with pytest.raises(ConnectionRefusedError):
        greet(RemoteAddress("127.0.0.1", free_port()))


@pytest.mark.parametrize(("kind", "key"), [("server", ""), ("tracker", "board")])
def test_a_server_and_a_tracker_greet_as_often_as_they_are_asked(kind: str, key: str) -> None:
    served = Server(kind)
    try:
        for _ in range(3):
            greet(RemoteAddress("127.0.0.1", served.port, key))
    finally:
        served.kill()
