"""What the programs that train and translate have in common on their command lines."""

from __future__ import annotations

import argparse
from typing import Any

from tazza.errors import ArgumentError


def add_corpora(parser: argparse.ArgumentParser) -> None:
    """Add the corpora that vocabularies come from."""
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-corpus", type=str, required=True, help=f"text file, a {side} sentence in each line"
        )
    parser.add_argument(
        "--unk-threshold", type=int, default=50, help="a word that is not there more often has no number of its own"
    )


def add_extents(parser: argparse.ArgumentParser) -> None:
    """Add what a model is made from."""
    parser.add_argument("--use-bidirectional-encoder", action="store_true", help="the first layer reads both ways")
    parser.add_argument("--use-attention", action="store_true", help="the decoder attends to the encoder")
    for side, extent in (("encoder", 256), ("decoder", 512)):
        parser.add_argument(f"--{side}-cell-num-units", type=int, default=512, help=f"elements of a state, {side}")
        parser.add_argument(f"--{side}-num-layers", type=int, default=2, help=f"layers, {side}")
        parser.add_argument(f"--{side}-embedding-size", type=int, default=extent, help=f"elements of a word, {side}")
    parser.add_argument(
        "--decoder-softmax-size", type=int, default=None, help="elements of a layer before the scores of words"
    )


def encoder_decoder_params(args: Any) -> dict[str, Any]:
    """Return the parameters of a model that its nets are built from.

    All layers of an encoder whose first one reads both ways have half of the units, as it was.

    Raises:
        ArgumentError: their number is odd.
    """
    units = args.encoder_cell_num_units
    if args.use_bidirectional_encoder:
        if units % 2:
            raise ArgumentError(f"{units} units of an encoder that reads both ways, the number must be even")
        units //= 2
    return {
        "attention": "regular" if args.use_attention else "none",
        "decoder_layer_configs": [{"num_units": args.decoder_cell_num_units}] * args.decoder_num_layers,
        "encoder_type": {
            "encoder_layer_configs": [{"num_units": units}] * args.encoder_num_layers,
            "use_bidirectional_encoder": args.use_bidirectional_encoder,
        },
        "encoder_embedding_size": args.encoder_embedding_size,
        "decoder_embedding_size": args.decoder_embedding_size,
        "decoder_softmax_size": args.decoder_softmax_size,
    }
