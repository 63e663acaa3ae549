"""Options that several commands have: what they are called, and what `--help` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tazza.cli.completion import colors, fits, formats, presets

MODEL_HELP = "folder with the files of a model, predict net, or predictor minidb"
PICTURES = "Pictures"

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="NAME of a blob that is an input, where the files do not tell; may be repeated"),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu: run a net there that was saved for another device. [default: where it was saved for]"),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="let the nets read and write files and databases: for models that you know"),
]
InitNet = Annotated[
    Path | None, typer.Option(help="net that makes the parameters. [default: the one beside the predict net]")
]

Made = Annotated[
    Path | None,
    typer.Option(help="folder for the pictures that the net makes, as PNG. [default: it makes classes]"),
]
Range = Annotated[
    str | None,
    typer.Option(help="BLACK,WHITE in these, such as 0,1. [default: what the input went through is undone]"),
]

Photographs = Annotated[
    list[Path],
    typer.Argument(help="images (.jpg, .png ...), arrays (.npy), IDX files, or folders of them; with --out a database"),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="what classes are called: one in each line, or JSON. [default: labels.txt beside the model, if it is"
        " there]"
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="table, lines, json (an object a line) or csv. [default: table on a terminal]", autocompletion=formats
    ),
]
Save = Annotated[bool, typer.Option("--save", help="keep preprocessing.json, and labels.txt, beside the model")]
Results = Annotated[
    Path | None,
    typer.Option(
        help="RESULTS.csv, .jsonl, .parquet, or .lmdb of whole outputs; goes on where it was ended. [default: results"
        " are printed]"
    ),
]
Workers = Annotated[int | None, typer.Option(help="processes that predict, with --out. [default: 1]", min=1)]
Dask = Annotated[
    str | None,
    typer.Option(
        help="scheduler of Dask whose workers predict instead, such as tcp://host:8786, or local. [default: none]"
    ),
]
OverwriteResults = Annotated[bool, typer.Option("--overwrite", help="replace the results that are in --out")]

Preset = Annotated[
    str | None,
    typer.Option(
        help="caffe (bytes, blue first, less the mean 104,117,123) or imagenet (0 ... 1, red first): what most nets"
        " take that were trained there; a file that --save wrote; or none. Other options change single fields."
        " [default: preprocessing.json beside the model, if it is there]",
        autocompletion=presets,
        rich_help_panel=PICTURES,
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        help="what pictures are scaled to: a number, or HEIGHT,WIDTH. [default: as they are]", rich_help_panel=PICTURES
    ),
]
Fit = Annotated[
    str | None,
    typer.Option(
        help="how: stretch both sides; crop the middle once it covers the size; pad what lies within it."
        " [default: stretch]",
        autocompletion=fits,
        rich_help_panel=PICTURES,
    ),
]
Shorter = Annotated[
    int | None,
    typer.Option(
        help="pixels of the shorter side before the middle is cropped. [default: as few as will do]",
        min=1,
        rich_help_panel=PICTURES,
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(help="what bytes are multiplied by, such as 1/255. [default: 1/256]", rich_help_panel=PICTURES),
]
Mean = Annotated[
    str | None,
    typer.Option(help="subtracted then: a number, or one for each colour. [default: 0]", rich_help_panel=PICTURES),
]
Std = Annotated[
    str | None,
    typer.Option(help="what the rest is divided by, likewise. [default: 1]", rich_help_panel=PICTURES),
]
Colors = Annotated[
    str | None,
    typer.Option(
        help="rgb, bgr, grey, rgba or bgra. [default: rgb or grey, as the net's first convolution says]",
        autocompletion=colors,
        rich_help_panel=PICTURES,
    ),
]
Axes = Annotated[
    str | None,
    typer.Option("--order", help="NCHW or NHWC. [default: as the net says]", rich_help_panel=PICTURES),
]
Invert = Annotated[
    bool | None,
    typer.Option(
        "--invert/--no-invert",
        help="make black white, for dark ink on a light ground. [default: no-invert]",
        rich_help_panel=PICTURES,
    ),
]

TestData = Annotated[str | None, typer.Option(help="database to test on. [default: a share of --data, held back]")]

TrainNet = Annotated[
    str | None,
    typer.Option(
        help="train net to run instead of LeNet (.pb, .pbtxt); reads 'data' and 'label', makes 'loss'. [default: LeNet]"
    ),
]

ParameterNet = Annotated[str | None, typer.Option(help="net that makes the parameters of --net. [default: none]")]

Gamma = Annotated[float | None, typer.Option(help="of the policies step, exp and inv. [default: 0.999; 0.0001 of inv]")]

Board = Annotated[
    bool | None,
    typer.Option(
        "--tensorboard/--no-board",
        help="write files for TensorBoard into the folder tensorboard in --out: scalars, histograms, pictures, the"
        " graph. [default: no-board]",
    ),
]

Engines = Annotated[str | None, typer.Option(help="engines to ask first, separated by commas. [default: none]")]
