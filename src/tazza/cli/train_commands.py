"""`tazza train NET`: its options, handed over."""

from __future__ import annotations

from tazza.cli.options import Board
from tazza.cli.train_options import (
    BatchSize,
    CheckpointEvery,
    Colors,
    Data,
    Epochs,
    FindRate,
    Flip,
    Freeze,
    Gamma,
    Iterations,
    KeepBest,
    LearningRate,
    Light,
    Momentum,
    Net,
    NetOption,
    NetType,
    Out,
    Overwrite,
    Patience,
    Policy,
    Power,
    Preset,
    Resume,
    Rotate,
    Seed,
    Set,
    Shift,
    Size,
    Solver,
    Start,
    Stepsize,
    TestData,
    TestShare,
    WeightDecay,
    Workers,
    Zoom,
)


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
