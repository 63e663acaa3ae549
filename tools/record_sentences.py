"""Record what Caffe2 learns from pairs of sentences, how it translates, and which hypothesis it takes.

PYTHON_OF_CAFFE2 tools/record_sentences.py tests/data/seq2seq/runs.json.gz

The sentences are letters, and the same ones from their end. Both sides are fed the same parameters.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import random
import sys
import tempfile
from typing import Any

import numpy as np

SENTENCES, BATCH, LETTERS = 24, 8, "abcde"


def units(*sizes: int) -> list[dict[str, int]]:
    """Return what layers are made from."""
    return [{"num_units": size} for size in sizes]


def params(attention: str, encoder: list[Any], decoder: list[Any], both: bool) -> dict[str, Any]:
    """Return what a model is made from."""
    return {
        "attention": attention,
        "decoder_layer_configs": decoder,
        "encoder_type": {"encoder_layer_configs": encoder, "use_bidirectional_encoder": both},
        "encoder_embedding_size": 5,
        "decoder_embedding_size": 4,
        "decoder_softmax_size": None if both else 6,
        "batch_size": BATCH,
        "optimizer_params": {"learning_rate": 0.5},
        "max_gradient_norm": 1.0,
    }


MODELS = {
    "attention": params("regular", units(7), units(13), True),
    "plain": params("none", units(6, 9), units(9, 8), False),
}
EPOCHS = {"attention": 8, "plain": 2}


def write_corpora(folder: str) -> tuple[str, str]:
    """Write sentences, and the same from their end; return the paths."""
    random = np.random.RandomState(7)
    lines = [[LETTERS[place] for place in random.randint(0, len(LETTERS), 1 + i % 4)] for i in range(SENTENCES)]
    paths = os.path.join(folder, "source"), os.path.join(folder, "target")
    for path, step in zip(paths, (1, -1)):  # noqa: B905 -- Python 3.8
        with open(path, "w") as file:
            file.writelines(" ".join(line[::step]) + "\n" for line in lines)
    return paths


def feed(workspace: Any, names: list[str], seed: int) -> None:
    """Feed parameters with numbers around 0."""
    random = np.random.RandomState(seed)
    for name in sorted(names):
        shape = workspace.FetchBlob(name).shape
        workspace.FeedBlob(name, np.asarray(random.standard_normal(shape) * 0.4, np.float32))


def learned(train: Any, name: str, given: dict[str, Any], folder: str) -> dict[str, Any]:
    """Train a model, save it, and return its losses: of each epoch while it trained, then of the first batches."""
    workspace = train.workspace
    workspace.ResetWorkspace()
    with train.Seq2SeqModelCaffe2(MODELS[name], len(given["source"]), len(given["target"]), num_gpus=0) as model:
        model.initialize_from_scratch()
        feed(workspace, [str(param) for param in model.model.params], 3)
        losses = [
            sum(float(model.step(batch, forward_only=False)) for batch in given["batches"]) for _ in range(EPOCHS[name])
        ]
        told = [float(model.step(batch, forward_only=True)) for batch in given["batches"]]
        saved = model.save(os.path.join(folder, name), 5)
        return {
            "losses": losses,
            "told": told,
            "steps": int(model.get_current_step()),
            "saved": os.path.basename(saved),
        }


def translations(translate: Any, models: list[str], given: dict[str, Any], folder: str, **decoding: Any) -> list[Any]:
    """Return for some sentences words, attention, cost and all hypotheses of an ensemble of saved models."""
    workspace = translate.workspace
    workspace.ResetWorkspace()
    ensemble = [
        {
            "source_vocab": given["source"],
            "target_vocab": given["target"],
            "model_params": MODELS[name],
            "model_file": os.path.join(folder, name + "-5"),
        }
        for name in models
    ]
    decoder = translate.Seq2SeqModelCaffe2EnsembleDecoder({"ensemble_models": ensemble, "decoding_params": decoding})
    decoder.load_models()
    found: list[Any] = []
    for sentence, _ in [pair for batch in given["batches"] for pair in batch][:: BATCH // 2]:
        words, attended, cost = decoder.decode(sentence, 6)
        beams = {
            kind: workspace.FetchBlob("output_" + kind + "_beam_list")[:, :, 0].tolist() for kind in ("token", "score")
        }
        found.append([sentence, list(map(int, words)), np.array(attended).tolist(), float(cost), beams])
    workspace.ResetWorkspace()
    return found


def hypotheses(translate: Any, given: dict[str, Any]) -> list[Any]:
    """Return made-up beams, with many equal scores, and the words and cost that a decoder takes from them."""
    workspace = translate.workspace
    workspace.ResetWorkspace()
    decoder = translate.Seq2SeqModelCaffe2EnsembleDecoder(
        {
            "ensemble_models": [
                {"source_vocab": given["source"], "target_vocab": given["target"], "model_params": MODELS["plain"]}
            ],
            "decoding_params": {"beam_size": 3, "word_reward": 0.0, "unk_reward": 0.0},
        }
    )
    random = np.random.RandomState(11)
    beams: dict[str, Any] = {}
    kept = workspace.FetchBlob, workspace.RunNet

    def fetch(name: Any) -> Any:
        return beams[str(name)]

    def run(net: Any) -> bool:
        return bool(net)

    workspace.FetchBlob, workspace.RunNet = fetch, run
    found: list[Any] = []
    try:
        for _ in range(60):
            rows = 1 + random.randint(5)
            tokens, before = random.randint(1, 5, (rows, 3)), random.randint(0, 3, (rows, 3))
            scores = random.randint(-3, 1, (rows, 3)).astype(np.float32)
            scores[random.rand(rows, 3) < 0.1] = np.nan
            beams["output_token_beam_list"] = tokens[:, :, None].astype(np.int32)
            beams["output_prev_index_beam_list"] = before[:, :, None].astype(np.int32)
            beams["output_score_beam_list"] = scores[:, :, None]
            beams["output_attention_weights_beam_list"] = np.zeros((rows, 3, 2), np.float32)
            words, _, cost = decoder.decode([4, 5], rows - 1)
            found.append([tokens.tolist(), before.tolist(), scores.tolist(), list(map(int, words)), float(cost)])
    finally:
        workspace.FetchBlob, workspace.RunNet = kept
        workspace.ResetWorkspace()
    return found


def read(train: Any, folder: str) -> dict[str, Any]:
    """Return the vocabularies of the corpora, and their pairs in batches."""
    source, target = write_corpora(folder)
    words = [train.seq2seq_util.gen_vocab(path, 0) for path in (source, target)]
    random.seed(5)
    batches = train.gen_batches(source, target, words[0], words[1], BATCH, 4)
    return {"source": dict(words[0]), "target": dict(words[1]), "batches": batches}


def run_all(train: Any, translate: Any, folder: str) -> dict[str, Any]:
    """Return all that is recorded."""
    for module in (train, translate):
        module.logger.setLevel(logging.ERROR)
    given = read(train, folder)
    found: dict[str, Any] = {"given": given}
    found.update((name, learned(train, name, given, folder)) for name in MODELS)
    rewards = {"beam_size": 3, "word_reward": 0.25, "unk_reward": -0.5}
    found["alone"] = translations(translate, ["attention"], given, folder, **rewards)
    none = {"beam_size": 4, "word_reward": 0.0, "unk_reward": 0.0}
    found["together"] = translations(translate, ["attention", "plain"], given, folder, **none)
    found["hypotheses"] = hypotheses(translate, given)
    return found


if __name__ == "__main__":
    from caffe2.python.models.seq2seq import train, translate

    with tempfile.TemporaryDirectory() as out:
        recorded = run_all(train, translate, out)
    with open(sys.argv[1], "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(json.dumps(recorded).encode())
