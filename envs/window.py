"""A window on the desktop that shows the frames of one environment."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

#: Frames are enlarged by a whole number, to about this many pixels on their longer side.
PIXELS = 768


class Window:
    """Shows frames in a pygame window, at most `frames_per_second` of them.

    pygame has one window per process: where several environments have a `Window`, it shows the last frame
    that any of them drew. A window that the user has closed stays closed, and `show` then does nothing.

    Args:
        title: the title of the window.
        frames_per_second: a frame is shown for at least one over this many seconds.

    Attributes:
        is_open: whether frames are still shown.

    Raises:
        gymnasium.error.DependencyNotInstalled: pygame is not installed.
        RuntimeError: SDL finds no display and no driver that needs none. (Where it has its "offscreen"
            driver, the window is invisible and nothing is raised.)
    """

    def __init__(self, title: str, frames_per_second: int) -> None:
        try:
            import pygame
        except ImportError as error:
            raise gymnasium.error.DependencyNotInstalled(
                "render_mode='human': pygame is not installed: pip install pygame-ce,"
                " or use render_mode='rgb_array'"
            ) from error
        try:
            pygame.display.init()
        except pygame.error as error:
            raise RuntimeError(
                f"render_mode='human': no display: {error}. Use render_mode='rgb_array'"
            ) from error
        self._pygame = pygame
        self._title = title
        self._seconds = 1 / frames_per_second
        self._next = 0.0
        self.is_open = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies show their frames in the same window of the process."""
        return Window, (self._title, round(1 / self._seconds))

    def show(self, frame: NDArray[np.uint8]) -> None:
        """Show `frame` (height, width, 3), once the frame before has been shown for long enough."""
        if not self.is_open:
            return
        sleep(max(0.0, self._next - monotonic()))
        self._next = monotonic() + self._seconds
        pygame, display = self._pygame, self._pygame.display
        height, width, _ = frame.shape
        zoom = max(1, PIXELS // max(height, width))
        size = (width * zoom, height * zoom)
        display.init()  # another environment may have closed it
        surface = display.get_surface()
        if surface is None or surface.get_size() != size:
            surface = display.set_mode(size)
        display.set_caption(self._title)
        picture = pygame.surfarray.make_surface(frame.swapaxes(0, 1))
        surface.blit(pygame.transform.scale(picture, size), (0, 0))
        display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()

    def close(self) -> None:
        """Close the window; a second call does nothing."""
        if self.is_open:
            self.is_open = False
            self._pygame.display.quit()
