"""The documentation site in a real browser, as wide as a phone: `make docs` builds it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from browser import Browser, chromium

DOCS = Path(__file__).resolve().parents[2] / "docs"
SITE = DOCS / "_build" / "html"
WIDTH = 390  # CSS pixels, of a phone
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
#: Elements that stick out of the screen, but for those in a box that scrolls, as wide tables do.
TOO_WIDE = """
    const screen = document.documentElement.clientWidth;
    const moves = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    const scrolls = (e) => e.tagName != "ARTICLE" && (moves(e) || scrolls(e.parentElement));
    return [...document.querySelectorAll("article *")]
        .filter((e) => e.getBoundingClientRect().right > screen + 1 && !scrolls(e.parentElement))
        .map((e) => `${e.tagName} ${e.className}: ${e.textContent.slice(0, 60)}`);
"""


def is_fresh() -> bool:
    """Return whether the site is there and not older than its pages."""
    built = SITE / "searchindex.js"  # which each build writes, unless nothing has changed
    sources = [*DOCS.glob("*.md"), DOCS / "conf.py"]
    return built.exists() and all(path.stat().st_mtime <= built.stat().st_mtime for path in sources)


pytestmark = pytest.mark.skipif(
    not is_fresh(), reason="the site is not built, or older than docs/: make docs"
)


class QuietSite(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the site is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietSite, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        # No window is that narrow. Without `mobile` a page that is too wide scrolls instead of shrinking.
        screen = {"width": WIDTH, "height": 844, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": screen}
        window.call("POST", "/goog/cdp/execute", command)
        yield window


@dataclass(frozen=True)
class Visit:
    """A page as the browser has loaded it."""

    errors: list[str]  # of its console
    foreign: list[str]  # requests to other servers
    scroll_width: int
    too_wide: list[str]  # elements
    ids: set[str]  # that a link can name
    links: list[str]


@pytest.fixture(scope="module")
def visits(phone: Browser, address: str) -> dict[str, Visit]:
    """Each page of the site, opened once."""
    phone.open("about:blank")
    phone.requests()
    found = {}
    for page in PAGES:
        phone.open(f"{address}/{page}")
        found[page] = Visit(
            phone.errors(),
            [url for url in phone.requests() if not url.startswith((address, "data:", "blob:"))],
            phone.run("return document.documentElement.scrollWidth"),
            phone.run(TOO_WIDE),
            set(phone.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")),
            phone.run("return [...document.querySelectorAll('a[href]')].map((e) => e.href)"),
        )
    return found


def test_pages_load_without_errors_and_from_this_server_only(visits: dict[str, Visit]) -> None:
    assert len(visits) > 60
    assert {page: visit.errors for page, visit in visits.items() if visit.errors} == {}
    assert {page: visit.foreign for page, visit in visits.items() if visit.foreign} == {}


def test_no_page_is_wider_than_a_phone(visits: dict[str, Visit], phone: Browser) -> None:
    assert phone.run("return innerWidth") == WIDTH
    assert {page: visit.scroll_width for page, visit in visits.items() if visit.scroll_width > WIDTH} == {}
    assert {page: visit.too_wide[:3] for page, visit in visits.items() if visit.too_wide} == {}


def test_a_paragraph_that_is_too_wide_is_found(phone: Browser, address: str) -> None:
    phone.open(f"{address}/index.html")
    wide = '<p id="wide" style="width: 800px">wide</p>'
    phone.run("document.querySelector('article').insertAdjacentHTML('beforeend', arguments[0])", wide)
    assert phone.run(TOO_WIDE) == ["P : wide"]


def test_links_within_the_site_lead_somewhere(visits: dict[str, Visit], address: str) -> None:
    dead = []
    for page, visit in visits.items():
        for link in dict.fromkeys(visit.links):
            url, place = urldefrag(link)
            if not url.startswith(f"{address}/"):
                continue
            target = unquote(url.removeprefix(f"{address}/")) or "index.html"
            known = visits[target].ids if target in visits else None
            if not (SITE / target).is_file() or (place and known is not None and unquote(place) not in known):
                dead.append(f"{page}: {link}")
    assert dead == []
