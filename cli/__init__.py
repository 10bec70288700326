"""The command line (floor 5), and the functions behind its commands, for scripts.

The names below, `main` apart, load their modules on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import attach
from .main import COMMANDS as COMMANDS
from .main import main as main  # not lazily: the module has the same name

if TYPE_CHECKING:
    from .evaluate import judge as judge
    from .evaluate import results_table as results_table
    from .experiment import AblationArguments as AblationArguments
    from .experiment import MicroRTSArguments as MicroRTSArguments
    from .experiment import ProcgenArguments as ProcgenArguments
    from .experiment import ablation_jobs as ablation_jobs
    from .experiment import microrts_jobs as microrts_jobs
    from .experiment import procgen_jobs as procgen_jobs
    from .play import make_visible as make_visible
    from .play import record_video as record_video
    from .report import write_comparison as write_comparison
    from .report import write_report as write_report
    from .serve import decide as decide
    from .video import COLOURS as COLOURS
    from .video import FRAME_HEIGHT as FRAME_HEIGHT
    from .video import LEGEND_WIDTH as LEGEND_WIDTH
    from .video import Camera as Camera
    from .video import EntityDrawing as EntityDrawing
    from .video import HasCamera as HasCamera
    from .video import find_ffmpeg as find_ffmpeg
    from .video import write_video as write_video
else:
    __getattr__, __dir__, __all__ = attach(__name__)
