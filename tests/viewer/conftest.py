from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entitize as ez
import pytest
import torch


@pytest.fixture
def net_for() -> Callable[..., ez.RogueNet]:
    """A small network for an environment, whose weights are large enough for distinct probabilities."""

    def make(venv: ez.EntityVectorEnv, **options: Any) -> ez.RogueNet:
        torch.manual_seed(0)
        options = {"d_model": 16, "n_layer": 2, "n_head": 2, "engine": "torch", **options}
        net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, **options)
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.normal_(0, 0.3)
        return net.eval()

    return make


@pytest.fixture
def read_page() -> Callable[[Path], dict[str, Any]]:
    """The data that a page holds."""

    def read(path: Path) -> dict[str, Any]:
        (packed,) = re.findall(r'<script id="data" type="text/plain">([\w+/=]*)</script>', path.read_text())
        return json.loads(gzip.decompress(base64.b64decode(packed)))

    return read
