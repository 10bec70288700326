"""The folder `web` in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from browser import Browser, chromium

WEB = Path(__file__).resolve().parents[2] / "web"


class WebHandler(SimpleHTTPRequestHandler):
    """Serves `web`, and under /made/ the files that tests make."""

    def __init__(self, *arguments: Any, made: Path, **options: Any) -> None:
        self._made = made
        super().__init__(*arguments, **options)

    def translate_path(self, path: str) -> str:
        name = path.removeprefix("/made/")
        return super().translate_path(path) if name == path else str(self._made / name)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")  # tests make other files of the same name
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose files the browser finds under /made/."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def address(made: Path) -> Iterator[str]:
    """Where the folder `web` is served."""
    handler = partial(WebHandler, directory=str(WEB), made=made)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        yield window
