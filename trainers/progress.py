"""Live progress of training: a bar on a terminal, one line in a notebook, plain lines elsewhere."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

#: Shows the environment steps so far and the metrics of an update.
Show = Callable[[int, Mapping[str, float]], None]

#: How much a line of progress says: nothing, the essentials, or losses and shares of time as well.
Detail = Literal["none", "short", "full"]

#: Of a full line: metric -> its name there.
_LOSSES = {
    "losses/value_loss": "value loss",
    "losses/approx_kl": "KL",
    "losses/clipfrac": "clip fraction",
    "losses/explained_variance": "explained variance",
}
#: Where time goes, as `Clock` names it.
_PHASES = ("env", "inference", "storage", "update")


def detail_of(progress: bool | Detail) -> Detail:
    """Return the `progress` of `PPO.train` as a level of detail.

    Raises:
        ValueError: it is none of True, False, "none", "short" and "full".
    """
    if isinstance(progress, bool):
        return "short" if progress else "none"
    if progress not in get_args(Detail):
        raise ValueError(f"progress: expected True, False, 'none', 'short' or 'full', got {progress!r}")
    return progress


@contextmanager
def shown_progress(detail: Detail, total: int, max_seconds: float | None, start: int) -> Iterator[Show]:
    """Show progress on standard error, unless `detail` is "none" or rich is not installed.

    Gives the function to call after every update.
    """
    if detail == "none" or importlib.util.find_spec("rich") is None:
        yield lambda step, metrics: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if start >= total:
        say(console, f"nothing to train: {start:,} steps of {total:,} are done. The total counts from step 0")
        yield lambda step, metrics: None
        return
    progress = TrainingProgress(
        total, max_seconds=max_seconds, start=start, console=console, is_full=detail == "full"
    )
    with progress:
        yield progress.update


def say(console: Console, line: str) -> None:
    """Print a line as it is: no colours, no markup, no line breaks."""
    console.print(line, highlight=False, soft_wrap=True, markup=False)


def can_redraw(console: Console) -> bool:
    """Return True if what was printed can be replaced: on a terminal, not in a file or a pipe.

    FORCE_COLOR, which notebooks and continuous integration set, makes a terminal of both for rich.
    """
    forced = any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    return console.is_terminal and (not forced or console.file.isatty())


#: Below this width of a terminal there is no room for a bar beside the line.
_WIDE = 120


class TrainingProgress:
    """Shows steps, samples/s, return, entropy and the time that is left.

    Args:
        total: environment steps that training is to take.
        max_seconds: the time after which it stops anyway.
        start: environment steps taken before now (of a resumed run).
        interval: seconds between plain lines.
        is_full: show episode length, losses and shares of time as well.
    """

    def __init__(
        self,
        total: int,
        *,
        max_seconds: float | None = None,
        start: int = 0,
        console: Console | None = None,
        interval: float = 10.0,
        is_full: bool = False,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self.console = console or Console()
        self._total = total
        self._max_seconds = max_seconds
        self._start = start
        self._interval = interval
        self._is_full = is_full
        self._began = time.monotonic()
        self._printed = -float("inf")
        self._line = ""
        self._in_notebook: Any = None  # the output that is replaced
        self._is_narrow = False  # a terminal that cuts off the end of a line
        self._bar: Bar | None = None
        if can_redraw(self.console):
            line = TextColumn("{task.percentage:.0f}%  {task.fields[line]}", markup=False)
            self._is_narrow = self.console.width < _WIDE
            columns = (line,) if self._is_narrow else (TextColumn("training"), BarColumn(), line)
            self._bar = Bar(*columns, console=self.console)
            self._task = self._bar.add_task("train", total=total, completed=start, line="first update")

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._in_notebook is not None:
            self._in_notebook.update({"text/plain": self._line}, raw=True)
        elif self._line:
            say(self.console, self._line)
            self._line = ""

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._began

    def update(self, step: int, metrics: Mapping[str, float]) -> None:
        """Show an update's metrics (under the trainer's names)."""
        line = self.describe(step, metrics, self.seconds, eta_first=self._is_narrow)
        if self._bar is not None:
            self._bar.update(self._task, completed=step, line=line)
        elif self.console.is_jupyter:
            self._show_in_notebook(line)
        elif self.seconds - self._printed >= self._interval:
            say(self.console, line)
            self._printed = self.seconds
            self._line = ""
        else:
            self._line = line  # the last one is printed at the end

    def _show_in_notebook(self, line: str) -> None:
        """Replace the line of before, at most once a second."""
        self._line = line  # the last one is shown at the end
        if self._in_notebook is None:
            display = importlib.import_module("IPython.display").display
            self._in_notebook = display({"text/plain": line}, raw=True, display_id=True)
        elif self.seconds - self._printed >= 1:
            self._in_notebook.update({"text/plain": line}, raw=True)
            self._printed = self.seconds

    def describe(
        self, step: int, metrics: Mapping[str, float], seconds: float, eta_first: bool = False
    ) -> str:
        """One line: where training is after `seconds`."""
        eta = f"ETA {clock_time(self._remaining(step, seconds))}"
        episodic_return = metrics.get("charts/episodic_return")
        success = metrics.get("charts/success_rate")
        evaluated = metrics.get("eval/episodic_return")
        entropy = metrics.get("losses/entropy")  # none where all environments were inactive
        parts = [
            f"{step:,}/{self._total:,} steps",
            f"{metrics['charts/SPS']:,.0f} samples/s",
            "return -" if episodic_return is None else f"return {episodic_return:.2f}",
            "entropy -" if entropy is None else f"entropy {entropy:.3f}",
            *([] if success is None else [f"success {success:.0%}"]),
            *([] if evaluated is None else [f"evaluated {evaluated:.2f}"]),
        ]
        parts = [eta, *parts] if eta_first else [*parts, eta]
        return "  ".join([*parts, *_details(metrics)] if self._is_full else parts)

    def _remaining(self, step: int, seconds: float) -> float:
        """Seconds to go, by the mean speed so far."""
        remaining = seconds * (self._total - step) / max(1, step - self._start)
        if self._max_seconds is not None:
            remaining = min(remaining, self._max_seconds - seconds)
        return max(0.0, remaining)


def _details(metrics: Mapping[str, float]) -> Iterator[str]:
    """Yield what a full line says beyond a short one, as far as it was measured."""
    if (length := metrics.get("charts/episodic_length")) is not None:
        yield f"length {length:.1f}"
    for name, shown in _LOSSES.items():
        if name in metrics:
            yield f"{shown} {metrics[name]:.3g}"
    seconds = {phase: metrics.get(f"time/{phase}", 0.0) for phase in _PHASES}
    if total := sum(seconds.values()):
        yield "time " + " ".join(f"{phase} {value / total:.0%}" for phase, value in seconds.items())


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds: 1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
