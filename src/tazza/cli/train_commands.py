"""`tazza train NET`: its options with what `--help` says of them, and the command, which hands them over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tazza.cli.completion import classifiers, presets
from tazza.cli.options import Board

DATA, LEARNING, CHANGES, MORE = "Pictures", "Learning", "Pictures are changed by chance", "From another model"

Net = Annotated[
    str | None,
    typer.Argument(
        help="a classifier of the zoo (squeezenet, resnet50, mobilenet_v2 ...); a program (.py) that declares one; or"
        " a folder with the nets of a model, its predict net, or a predictor minidb. [default: that of --resume]",
        autocompletion=classifiers,
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        help="folder with a sub-folder for each class, or with train/ and test/ that have these; an LMDB folder or"
        " a minidb; a .npz file with images and labels; MNIST's IDX files; 'digits'. [default: digits]",
        rich_help_panel=DATA,
    ),
]
TestData = Annotated[
    str | None,
    typer.Option(help="the same, to test on. [default: what --data brings, or a share]", rich_help_panel=DATA),
]
TestShare = Annotated[
    float | None,
    typer.Option(
        help="share of every class that is held back, where --data brings no tests. [default: 0.2]",
        rich_help_panel=DATA,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        help="height and width that pictures get. [default: theirs if all have one, else the net's]",
        min=1,
        rich_help_panel=DATA,
    ),
]
Colors = Annotated[
    str | None, typer.Option(help="rgb, bgr or grey. [default: as the pictures are]", rich_help_panel=DATA)
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="imagenet or caffe: the numbers that bytes become. [default: mean 0 and deviation 1, or what lies"
        " beside the model]",
        autocompletion=presets,
        rich_help_panel=DATA,
    ),
]
Flip = Annotated[
    bool | None,
    typer.Option("--flip/--no-flip", help="mirror half of them. [default: no]", rich_help_panel=CHANGES),
]
Shift = Annotated[
    int | None,
    typer.Option(
        help="pixels at most, in both directions: a crop with black around. [default: 0]",
        min=0,
        rich_help_panel=CHANGES,
    ),
]
Zoom = Annotated[
    float | None, typer.Option(help="factors of 1 less this to 1 plus this. [default: 0]", rich_help_panel=CHANGES)
]
Rotate = Annotated[
    float | None, typer.Option(help="degrees at most, to either side. [default: 0]", rich_help_panel=CHANGES)
]
Light = Annotated[
    float | None,
    typer.Option(help="brightness, as with --zoom. [default: 0]", rich_help_panel=CHANGES),
]
Epochs = Annotated[float | None, typer.Option(help="rounds through the pictures. [default: 10]", min=0)]
Iterations = Annotated[int | None, typer.Option(help="steps. [default: those of --epochs]", min=1)]
BatchSize = Annotated[int | None, typer.Option(help="pictures of a step. [default: 32]", min=1)]
Patience = Annotated[
    int | None,
    typer.Option(help="end after so many tests no better than the best one. [default: never]", min=1),
]
KeepBest = Annotated[
    bool | None,
    typer.Option("--keep-best/--keep-last", help="export the net of the best test. [default: keep-last]"),
]
Solver = Annotated[
    str | None, typer.Option(help="optimizer: sgd, adagrad, adam. [default: sgd]", rich_help_panel=LEARNING)
]
LearningRate = Annotated[
    float | None,
    typer.Option(help="what it starts from. [default: 0.01; 0.001 of adam]", rich_help_panel=LEARNING),
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="how the rate changes: poly, cosine, fixed, step, linearWarmup ... [default: poly]",
        rich_help_panel=LEARNING,
    ),
]
Momentum = Annotated[float | None, typer.Option(help="of sgd. [default: 0.9]", rich_help_panel=LEARNING)]
WeightDecay = Annotated[
    float | None, typer.Option(help="pull of weights towards 0. [default: 0.0005]", rich_help_panel=LEARNING)
]
Gamma = Annotated[float | None, typer.Option(help="of policies. [default: 0.999]", rich_help_panel=LEARNING)]
Stepsize = Annotated[int | None, typer.Option(help="steps, of policies. [default: 1]", rich_help_panel=LEARNING)]
Power = Annotated[float | None, typer.Option(help="of policies. [default: 1]", rich_help_panel=LEARNING)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of any other option of the optimizer or the policy; may be repeated. [default: none]",
        rich_help_panel=LEARNING,
    ),
]
FindRate = Annotated[
    bool,
    typer.Option(
        "--find-rate", help="only try growing rates for a hundred steps, and suggest one", rich_help_panel=LEARNING
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="take parameters of the same name and shape from a model. [default: those of NET, or fresh ones]",
        rich_help_panel=MORE,
    ),
]
Freeze = Annotated[
    list[str] | None,
    typer.Option(
        help="pattern of names of parameters that stay as they are, such as 'conv*'; may be repeated. [default: none]",
        rich_help_panel=MORE,
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="of parameters, order, changes and what is held back. [default: 1]", min=0)
]
NetOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE of the builder of a net of the zoo, such as width=0.5; may be repeated. [default: none]"
    ),
]
NetType = Annotated[
    str | None, typer.Option(help="how nets run: simple, async_scheduling, dag, plan ... [default: simple]")
]
Workers = Annotated[
    int | None, typer.Option(help="operators at a time, of parallel net types. [default: the threads]", min=1)
]
Out = Annotated[Path | None, typer.Option(help="folder for all that is written. [default: out/NET]")]
CheckpointEvery = Annotated[int | None, typer.Option(help="steps. [default: an epoch]", min=1)]
Resume = Annotated[bool, typer.Option("--resume", help="go on from the checkpoint in --out")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace the training that is in --out")]


def train_net(
    net: Net = None,
    data: Data = None,
    test_data: TestData = None,
    test_share: TestShare = None,
    size: Size = None,
    colors: Colors = None,
    preset: Preset = None,
    flip: Flip = None,
    shift: Shift = None,
    zoom: Zoom = None,
    rotate: Rotate = None,
    light: Light = None,
    epochs: Epochs = None,
    iterations: Iterations = None,
    batch_size: BatchSize = None,
    patience: Patience = None,
    keep_best: KeepBest = None,
    solver: Solver = None,
    learning_rate: LearningRate = None,
    policy: Policy = None,
    momentum: Momentum = None,
    weight_decay: WeightDecay = None,
    gamma: Gamma = None,
    stepsize: Stepsize = None,
    power: Power = None,
    set: Set = None,
    find_rate: FindRate = False,
    start: Start = None,
    freeze: Freeze = None,
    seed: Seed = None,
    net_option: NetOption = None,
    net_type: NetType = None,
    workers: Workers = None,
    out: Out = None,
    tensorboard: Board = None,
    checkpoint_every: CheckpointEvery = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a net to sort pictures, and test it; `tazza train NET` is short for this.

    The net gets an output for each class. Into --out go the nets (init_net.pb, predict_net.pb) with labels.txt and
    preprocessing.json, so that `tazza predict OUT photo.jpg` needs no options; the checkpoints of the last and the best
    test, history.csv, pictures, and under data/ the decoded pictures. The defaults of --resume are the options of the
    training that it goes on with. Ctrl-C and SIGTERM end a training behind the present step, with a checkpoint.
    """
    told = dict(locals())
    from tazza.cli.train_pictures import train_as_told

    train_as_told(told)
