"""Help for a server beside its connections: an address, open files, logs, a limit of messages."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time

from .protocol import ProtocolError

#: Seconds in which a game that connects for each episode is back.
COMES_BACK = 1.0


def host_and_port(address: str) -> tuple[str, int]:
    """Return both parts of "HOST:PORT", without the brackets of an IPv6 address.

    Raises:
        ValueError: the address has another form.
    """
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"listen: expected HOST:PORT, such as 127.0.0.1:7000, got {address!r}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return True if only this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files to `count`.

    Raises:
        ValueError: the system does not allow it.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    except (OSError, ValueError):
        raise ValueError(
            f"listen: expected to be allowed {count} open files, got at most {hard}. Listen to fewer games"
            " (--env.num-envs, --games), or raise the limit (ulimit -n)"
        ) from None


def quiet_logger() -> logging.Logger:
    """A logger that does not print every port scan as a traceback."""
    logger = logging.getLogger("entitize.websockets")
    logger.setLevel(logging.CRITICAL)
    return logger


class Pace:
    """Counts messages; raises where there are more than so many per second."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._began, self._count = time.monotonic(), 0

    def count(self) -> None:
        """Count one message.

        Raises:
            ProtocolError: there were too many within a second.
        """
        now = time.monotonic()
        if now - self._began >= 1:
            self._began, self._count = now, 0
        self._count += 1
        if self._count > self._per_second:
            raise ProtocolError(f"expected at most {self._per_second:g} messages per second, got more")


_LAST = " (further reasons are not logged)"


class Refusals:
    """Logs why connections are closed: each reason once, at most `MOST`, as games may try for ever."""

    MOST = 10

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._lock = log, threading.Lock()
        self._reasons: set[str] = set()

    def log(self, error: Exception) -> None:
        """Log a reason, which may quote what a game has sent."""
        reason = "".join(letter if letter.isprintable() else "?" for letter in str(error)[:300])
        with self._lock:
            if reason in self._reasons or len(self._reasons) >= self.MOST:
                return
            self._reasons.add(reason)
            is_last = len(self._reasons) == self.MOST
        self._log.warning("closed the connection of a game: %s%s", reason, _LAST if is_last else "")
