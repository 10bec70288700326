"""Bots that hang are left behind.

Java's threads can't be killed, and one that runs a call from Python can't be taken out of it. So where a bot
may hang, the games against bots are played on a thread of Java's own, for which the caller waits; when a bot
takes too long, the caller continues without that thread. While a bot thinks, the thread is written down as
the one that plays: to leave it behind is to strike that out, and a thread that comes back from a bot and is
no longer the one that plays touches nothing more: it raises, and with that is out of the games for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .handles import GameLoop, Handles, JavaArray

#: Seconds after which the caller looks around: Ctrl-C reaches it no sooner.
GLANCE = 0.1
#: Seconds that an interrupted caller gives the thread to come to a bot, or to the end.
_SETTLE = 1.0


class BotHungError(Exception):
    """A bot has not answered in time; the thread that it keeps has been left behind."""


class Watch:
    """Plays loops on a thread that can be left behind, and waits for them.

    Args:
        handles: of the engine.
        progress: one int, into which the loops write which game they are at.
        timeout: seconds that a bot may take for one answer. Only seconds through which the caller has
            waited count: time in which the process was stopped does not.
    """

    def __init__(self, handles: Handles, progress: JavaArray, timeout: float) -> None:
        self._handles, self._progress, self._timeout = handles, progress, timeout
        java = handles.jpype.JClass
        self._playing = java(
            "java.util.concurrent.atomic.AtomicReference"
        )()  # the thread, while a bot thinks
        self._span = JavaArray(handles, "int", [0, 0])  # the games to be played: from, to
        self._task = java("java.util.concurrent.FutureTask")
        self._not_yet = java("java.util.concurrent.TimeoutException")
        self._raised = java("java.util.concurrent.ExecutionException")
        self._milliseconds = java("java.util.concurrent.TimeUnit").MILLISECONDS
        self._glance = max(1, round(1000 * min(GLANCE, timeout / 2)))
        # It makes another thread when the last one has not come back, and lets idle ones go.
        self._pool = java("java.util.concurrent.Executors").newCachedThreadPool(self._thread_maker())

    def guarded(self, handle: Any) -> Any:
        """The same, called of a bot: from here a thread that was left behind does not return."""
        handles, kind = self._handles, "java.util.concurrent.atomic.AtomicReference"
        thing = "java.lang.Object"
        this = handles.static("java.lang.Thread", "currentThread", "java.lang.Thread")
        this = this.asType(handles.signature(thing))
        enter = handles.bind(handles.method(kind, "set", "void", thing), 0, self._playing)
        leave = handles.method(kind, "compareAndSet", "boolean", thing, thing)
        leave = handles.bind(handles.bind(leave, 2, None), 0, self._playing)
        enter, leave = handles.collected(enter, 0, this), handles.collected(leave, 0, this)
        error = handles.jpype.JClass("java.util.concurrent.CancellationException")
        stop = handles.methods.throwException(handles.java_class("void"), error.class_)
        stop = handles.bind(stop, 0, error("left behind"))
        check = handles.when(leave, handles.methods.empty(handles.signature("void")), stop)
        result = handle.type().returnType()
        if str(result.getName()) != "void":  # hand on what the bot has answered
            check = handles.ignoring(check, 0, str(result.getName()))
            check = handles.given(handles.methods.identity(result), check)
        return handles.given(handles.chain(handle, check), enter)

    def watched(self, loop: GameLoop) -> Callable[[int, int], None]:
        """`loop.run`, but on the thread.

        It raises what the loop raises, or BotHungError; then `progress` says at which game.
        """
        handles, thing = self._handles, "java.lang.Object"
        ends = [handles.bind(self._span.get, 0, end) for end in (0, 1)]
        whole = handles.collected(handles.collected(loop.whole, 1, ends[1]), 0, ends[0])
        whole = handles.chain(whole, handles.methods.constant(handles.java_class(thing), None))
        call = handles.interface("java.util.concurrent.Callable", whole)

        def run(first: int, last: int) -> None:
            self._span.array[0], self._span.array[1] = first, last
            task = self._task(call)
            try:
                self._pool.execute(task)
                self._wait(task)
            except self._raised as error:
                raise error.getCause() from error
            except BotHungError:
                raise
            except BaseException:  # Ctrl-C, say: no thread may be playing when the caller continues
                self._settle(task)
                raise

        return run

    @property
    def busy_threads(self) -> int:
        """The number of threads that are playing, or wait for a bot with which they were left behind."""
        return int(self._pool.getActiveCount())

    def _wait(self, task: Any) -> None:
        game, waited = -1, 0
        while True:
            try:
                task.get(self._glance, self._milliseconds)
                return
            except self._not_yet:
                now = int(self._progress.array[0])
            waited = waited + self._glance if now == game else 0
            game = now
            if waited >= 1000 * self._timeout and self._leave_behind():
                raise BotHungError(f"did not answer within {self._timeout:g} s")

    def _leave_behind(self) -> bool:
        """Continue without the thread, if it is with a bot; if it is not, it soon will be, or done."""
        thread = self._playing.get()
        return thread is not None and bool(self._playing.compareAndSet(thread, None))

    def _settle(self, task: Any) -> None:
        end = time.monotonic() + _SETTLE
        while not task.isDone() and not self._leave_behind() and time.monotonic() < end:
            time.sleep(0.001)
        task.cancel(False)  # where it has not begun, it never shall

    def _thread_maker(self) -> Any:
        """Makes daemons, for which no process waits at its end."""
        handles, kind = self._handles, "java.lang.Thread"
        make = handles.constructor(kind, "java.lang.Runnable", "java.lang.String")
        make = handles.bind(make, 1, "entitize-bots")
        daemon = handles.method(kind, "setDaemon", "void", "boolean")
        daemon = handles.bind(daemon, 1, handles.jpype.JClass("java.lang.Boolean")(True))
        daemon = handles.given(handles.methods.identity(handles.java_class(kind)), daemon)
        return handles.interface("java.util.concurrent.ThreadFactory", handles.chain(make, daemon))
