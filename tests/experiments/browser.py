"""Headless Chromium for tests of HTML pages, if it is installed, driven over a pipe."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
_READS, _WRITES = 3, 4
"""Descriptors on which the browser reads commands and writes answers."""
_PATIENCE_S = 60


class Page:
    """One page in the browser, as the DevTools protocol shows it."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._rest, self._last = commands, answers, b"", 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._ask(f"{domain}.enable")

    def open(
        self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light", *, scripts: bool = True,
        query: str = "",
    ) -> None:
        self.events.clear()
        self._ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._ask(
            "Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self._ask("Page.navigate", url=path.absolute().as_uri() + query)
        until = time.monotonic() + _PATIENCE_S
        while not (self.run("document.readyState") == "complete" and self.run("location.protocol") == "file:"):
            assert time.monotonic() < until, "the page does not load"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, which may be a promise."""
        found = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str) -> None:
        """Move to the middle of an element, which is scrolled to, and click there."""
        x, y = self.middle(selector)
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, name: str) -> None:
        """Press and release a key."""
        codes = {"Enter": "\r"}
        self._ask("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, text=codes.get(name, ""))
        self._ask("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)

    def print(self, path: Path, scheme: str = "light") -> None:
        """Open a page as it is printed on A4 with its own margins, 703 pixels wide."""
        self.open(path, width=703, scheme=scheme)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", media="print", features=features)

    def middle(self, selector: str) -> tuple[float, float]:
        found = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return found[0], found[1]

    @property
    def complaints(self) -> list[str]:
        """Errors of the page's scripts, and requests that the browser blocked."""
        raised = [each["params"] for each in self.events if each["method"] == "Runtime.exceptionThrown"]
        logged = [each["params"]["entry"] for each in self.events if each["method"] == "Log.entryAdded"]
        return [json.dumps(each) for each in raised] + [
            each["text"] for each in logged if each["level"] in ("error", "warning")
        ]

    @property
    def requests(self) -> list[str]:
        sent = [each["params"] for each in self.events if each["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        found = self._ask("Page.captureScreenshot", captureBeyondViewport=whole, **(self._whole() if whole else {}))
        path.write_bytes(b64decode(found["data"]))

    def _whole(self) -> dict[str, Any]:
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _ask(self, method: str, **parameters: object) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._answers, 2**20)
            assert more, "the browser has gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start the browser with an empty profile; end it afterwards."""
    assert PROGRAM is not None
    (read_commands, commands), (answers, write_answers) = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(handle, fcntl.F_DUPFD, 20) for handle in (read_commands, write_answers)]
    for handle in (read_commands, write_answers):
        os.close(handle)
    script = f'exec "$0" "$@" {_READS}<&{theirs[0]} {_WRITES}>&{theirs[1]}'
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", script, PROGRAM, *options], pass_fds=theirs, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    for handle in theirs:
        os.close(handle)
    try:
        yield Page(commands, answers)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)
