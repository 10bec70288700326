"""A window on the desktop that shows the frames of one environment."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

_PIXELS = 768  # width and height


class Window:
    """Shows one frame after the other, at most `frames_per_second` of them; the engine's own library draws.

    Raises:
        RuntimeError: there is no display, or no OpenGL to draw with.
    """

    def __init__(self, frames_per_second: int) -> None:
        try:
            from gym3.internal.renderer import Renderer

            self._renderer = Renderer(width=_PIXELS, height=_PIXELS)
        except Exception as error:  # gym3 raises bare exceptions, GLFW and OpenGL their own
            raise RuntimeError(
                f"render_mode='human' needs a display with OpenGL: {error};"
                " render_mode='rgb_array' does without"
            ) from error
        self._seconds = 1 / frames_per_second
        self._next = 0.0

    def show(self, frame: NDArray[np.uint8]) -> None:
        """Show `frame` (height, width, 3), once the frame before has been shown for long enough."""
        if not self._renderer.is_open:  # the user has closed it
            return
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._seconds
        self._renderer.start()
        self._renderer.draw_bitmap(0, 0, _PIXELS, _PIXELS, image=np.ascontiguousarray(frame))
        self._renderer.finish()
