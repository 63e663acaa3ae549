"""Where the files are that genuine Caffe2 wrote, and a small model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tazza.models import Model, layers
from tazza.workspace import Workspace

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "data" / "interop"


@pytest.fixture
def shared() -> Path:
    """Return the folder `data` of what is too large for the project."""
    folder = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no folder '{folder}'; TAZZA_SHARED can name the one that holds it")
    return folder


@pytest.fixture
def model() -> Model:
    """Return a model x -> p: a layer, a rectifier in place, a softmax; and a loss with gradients behind it."""
    made = Model("small")
    y = layers.relu(made, layers.fc(made, "x", "y", 3, 5), "y")
    p = layers.softmax(made, layers.fc(made, y, "z", 5, 2), "p")
    loss = layers.averaged_loss(made, layers.label_cross_entropy(made, p, "label", "xent"), "loss")
    made.add_gradients([loss])
    return made


@pytest.fixture
def workspace(model: Model) -> Workspace:
    """Return a workspace in which the model was made and run once on `x` (4, 3)."""
    made = Workspace()
    made.run_net_once(model.init_net.proto)
    made.feed("x", np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    made.feed("label", np.array([0, 1, 1, 0], np.int32))
    made.run_net_once(model.net.proto)
    return made
