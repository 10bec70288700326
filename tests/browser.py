"""Chromium for tests of pages: a client of chromedriver (W3C WebDriver, https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Browser:
    """One browser window; `url` of the session is chromedriver's."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a WebDriver command; returns its value.

        Raises:
            RuntimeError: the browser refused it; with its message.
        """
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, address: str | Path) -> Self:
        """Load a page; a path is loaded from disk."""
        self.call("POST", "/url", {"url": address.as_uri() if isinstance(address, Path) else address})
        return self

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what JavaScript returns: the body of a function of `arguments`."""
        return self.call("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until a JavaScript expression is true.

        Raises:
            TimeoutError: it has not become true; with the messages of the console.
        """
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} is false: {self.errors()}")
            time.sleep(0.05)

    def move(self, x: float, y: float, click: bool = False) -> None:
        """Move the pointer to a place in the window, in CSS pixels."""
        steps: list[dict[str, Any]] = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}]
        if click:
            steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}
        self.call("POST", "/actions", {"actions": [pointer]})

    def press(self, *keys: str) -> None:
        """Press keys one after the other: letters, or WebDriver's code points for others."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def screenshot(self) -> bytes:
        """Return the window as a PNG file."""
        return base64.b64decode(self.call("GET", "/screenshot"))

    def errors(self) -> list[str]:
        """Return the errors of the console since the last call."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def requests(self) -> list[str]:
        """Return the addresses that were requested since the last call."""
        entries = self.call("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


@contextmanager
def chromium(
    profile: Path, size: Sequence[int] = (1280, 900), flags: Sequence[str] = ()
) -> Iterator[Browser]:
    """Start Chromium with an empty `profile`; skips the test where it or chromedriver is not installed."""
    driver = shutil.which("chromedriver")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if driver is None or program is None:
        pytest.skip("Chromium or chromedriver is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = Browser(f"http://127.0.0.1:{port}")
    try:
        _wait_for(server)
        window = f"--window-size={size[0]},{size[1]}"
        options = {"binary": program, "args": [*_FLAGS, window, f"--user-data-dir={profile}", *flags]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        session = server.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(f"http://127.0.0.1:{port}/session/{session['sessionId']}")
        try:
            yield browser
        finally:
            browser.call("DELETE", "")
    finally:
        process.terminate()
        process.wait()


def _wait_for(server: Browser, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError):
            server.call("GET", "/status")
            return
        time.sleep(0.05)
    pytest.fail("chromedriver does not answer")
