"""Train LeNet on digits at two learning rates, and draw the pictures of docs/train_figures.md.

python -m tools.draw_train_figures
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tazza.cli.history import History
from tazza.cli.recorded_training import read_training
from tazza.cli.train_nets import build
from tazza.cli.train_settings import TrainSettings
from tazza.db.image_source import prepare
from tazza.models.evaluation import Evaluation, evaluate
from tazza.models.evaluation_files import draw_evaluation
from tazza.models.training import Trainer
from tazza.observers.comparison_picture import draw_comparison
from tazza.observers.drawing import draw_curves
from tazza.workspace import Workspace

FOLDER = Path(__file__).parent.parent / "docs" / "train_figures"
CURVES, COMPARISON = "curves.png", "comparison.png"
RATES = (0.05, 0.01)
KEPT = 8
"""Images of each kind in the picture of those."""


def train(rate: float, epochs: float, data: Path, out: Path) -> tuple[History, Evaluation]:
    """Train, and leave in `out` what is compared."""
    settings = TrainSettings(learning_rate=rate, epochs=epochs)
    databases = prepare(settings.data, None, data, seed=settings.seed)
    iterations = settings.iterations_of(databases.train.count)
    nets = build(settings, databases, iterations)
    history = History()
    with Trainer(nets.init, nets.train, Workspace(), accuracy=nets.accuracy) as trainer:

        def tested(keep: int) -> Evaluation:
            count = databases.test.count
            workspace, parameters = trainer.workspace, nets.parameters
            return evaluate(workspace, nets.test_init, nets.test, parameters=parameters, count=count, keep=keep)

        for step in trainer.run(iterations):
            history.steps.append(step)
            if step.iteration % (databases.train.count // settings.batch_size) == 0:
                history.tests[step.iteration] = tested(0).accuracy
        last = tested(KEPT)
        history.tests[trainer.iteration] = last.accuracy
    out.mkdir(parents=True)
    history.write(out / "history.csv")
    settings.write(out / "settings.json")
    return history, last


def draw(folder: Path, epochs: float) -> None:
    """Draw the pictures of the page into a folder."""
    with TemporaryDirectory() as place:
        outs = [Path(place) / f"rate-{rate}" for rate in RATES]
        found = [train(rate, epochs, Path(place) / "data", out) for rate, out in zip(RATES, outs, strict=True)]
        trainings = [read_training(out, out.name) for out in outs]
    history, last = found[0]
    draw_evaluation(folder, last)
    loss = history.curve(lambda step: step.loss)
    rate = history.curve(lambda step: step.learning_rate)
    assert loss is not None, "there were steps"
    accuracy = history.curve(lambda step: step.accuracy)
    title = f"test accuracy {last.accuracy:.2%}"
    draw_curves(folder / CURVES, loss, accuracy, tested=history.tested(), rate=rate, title=title)
    draw_comparison(folder / COMPARISON, {one.name: {**one.steps, **one.tests} for one in trainings})


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    draw(FOLDER, 6.0)
