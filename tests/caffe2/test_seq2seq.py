"""Models of sentences under their old names: what they learn and how they translate, beside runs of Caffe2 and laws.

Which nets they build is recorded with `test_training_nets.py`.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import logging
import random
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, workspace
from caffe2.python.models.seq2seq import _arguments, beam_search, seq2seq_util, train, translate
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from tazza.errors import ArgumentError, InitError, NotFoundError
from tazza.runtime.log import LOG_LEVEL, logger
from tools import record_sentences

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "seq2seq" / "runs.json.gz").read_bytes())
)
VOCABULARY = {number: str(number) for number in range(11)}


@pytest.fixture(autouse=True)
def _own_workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    for module in (train, translate):
        monkeypatch.setattr(module.logger, "handlers", [])
    kept = logger.level, list(logger.handlers)
    workspace.ResetWorkspace()
    with LOG_LEVEL.override(LOG_LEVEL.value):  # models call GlobalInit
        yield
    logger.level, logger.handlers = kept
    workspace.ResetWorkspace()


# -- beside Caffe2 -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_training_and_translations_are_those_of_caffe2(tmp_path: Path) -> None:
    """From the same parameters, on the same batches: losses of all epochs, saved, and translated alone and together."""
    got = json.loads(json.dumps(record_sentences.run_all(train, translate, str(tmp_path))))
    assert got["given"] == RECORDED["given"]
    for name in record_sentences.MODELS:
        for kind in ("losses", "told"):
            np.testing.assert_allclose(got[name][kind], RECORDED[name][kind], rtol=1e-4, err_msg=f"{name} {kind}")
        assert [got[name][key] for key in ("steps", "saved")] == [RECORDED[name][key] for key in ("steps", "saved")]
        assert got[name]["losses"][-1] < got[name]["losses"][0]
    for kind in ("alone", "together"):
        for ours, theirs in zip(got[kind], RECORDED[kind], strict=True):
            assert ours[:2] == theirs[:2]
            assert ours[4]["token"] == theirs[4]["token"]
            for one, other in ((ours[2], theirs[2]), (ours[3], theirs[3]), (ours[4]["score"], theirs[4]["score"])):
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_batches_are_those_of_caffe2(tmp_path: Path) -> None:
    got = json.loads(json.dumps(record_sentences.read(train, str(tmp_path))))
    assert got == RECORDED["given"]
    (batch, *_) = got["batches"]
    assert train.prepare_batch(batch).encoder_inputs.shape[1] == len(batch) == record_sentences.BATCH


# -- laws --------------------------------------------------------------------------------------------------------------


def settings(attention: str = "regular", **given: Any) -> dict[str, Any]:
    """Return what a small model is made from."""
    made = record_sentences.params(attention, [{"num_units": 3}], [{"num_units": 5}], both=True)
    return {**made, "batch_size": 2, **given}


def saved(folder: Path, given: dict[str, Any]) -> tuple[Any, str]:
    """Return a model with random parameters, and where they are saved."""
    model = train.Seq2SeqModelCaffe2(given, len(VOCABULARY), len(VOCABULARY), num_gpus=0)
    model.initialize_from_scratch()
    record_sentences.feed(workspace, [str(param) for param in model.model.params], 4)
    return model, model.save(str(folder / "model"), 3)


def decoder_of(*models: tuple[dict[str, Any], str], **decoding: Any) -> Any:
    """Return a decoder of saved models, which are loaded."""
    ensemble = [
        {"source_vocab": VOCABULARY, "target_vocab": VOCABULARY, "model_params": given, "model_file": file}
        for given, file in models
    ]
    made = translate.Seq2SeqModelCaffe2EnsembleDecoder(
        {
            "ensemble_models": ensemble,
            "decoding_params": {"beam_size": 3, "word_reward": 0.0, "unk_reward": 0.0, **decoding},
        }
    )
    made.load_models()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["none", "regular", "recurrent", "dot"])
def test_a_translation_costs_the_loss_of_its_words(tmp_path: Path, attention: str) -> None:
    given = settings(attention)
    model, file = saved(tmp_path, given)
    decoder = decoder_of((given, file))
    for sentence in ([4, 5, 6], [7]):
        words, attended, cost = decoder.decode(sentence, 6)
        again = words[:-1] if words[-1] == seq2seq_util.EOS_ID else words
        batch = train.prepare_batch([(sentence, again)])
        for name, value in batch._asdict().items():
            workspace.FeedBlob(
                name, value[: len(words)] if name in ("decoder_inputs", "targets", "target_weights") else value
            )
        workspace.FeedBlob("decoder_lengths", np.array([len(words)], np.int32))
        workspace.RunNet(model.forward_net)
        np.testing.assert_allclose(workspace.FetchBlob("total_loss_scalar"), cost, rtol=1e-4)
        sums = np.sum(attended, axis=1)
        np.testing.assert_allclose(
            sums, np.zeros(len(words)) if attention == "none" else np.ones(len(words)), rtol=1e-4
        )


@pytest.mark.slow
def test_a_model_beside_itself_translates_as_alone(tmp_path: Path) -> None:
    given = settings()
    _, file = saved(tmp_path, given)
    found: list[Any] = []
    for count in (1, 2):
        workspace.ResetWorkspace()
        decoder = decoder_of(*[(given, file)] * count, word_reward=0.5)
        found.append([decoder.decode(sentence, 5) for sentence in ([4, 5], [9, 3, 6])])
    for (words, attended, cost), (same, also, same_cost) in zip(*found, strict=True):
        assert words == same
        np.testing.assert_allclose(attended, also, rtol=1e-5)
        np.testing.assert_allclose(cost, same_cost, rtol=1e-5)


PENALTY = -0.75


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["", "deep"])
@pytest.mark.parametrize("given", ["plain", "rewarded", "penalized", "chosen"])
def test_a_search_finds_the_best_of_all_ways(given: str, scope: str) -> None:
    """Where the beam has as many hypotheses as there are words, two steps go through all of them."""
    size, end, go = 4, 2, 1
    rng = np.random.default_rng(len(given))
    log_probs = np.log(rng.dirichlet(np.ones(size), size)).astype(np.float32)  # of each word before
    rewards = rng.standard_normal(9).astype(np.float32)
    words = np.array([0, 5, end, 3] if given == "chosen" else range(size), np.int32)
    with core.NameScope(scope):
        model = Seq2SeqModelHelper(name="searched")
        table, inputs, length, attended = map(core.BlobReference, ("table", "inputs", "length", "attended"))
        model.net.AddExternalInputs(table, inputs, length, attended)
        penalty = PENALTY if given == "penalized" else None
        search = beam_search.BeamSearchForwardOnly(size, model, end, go, penalty)
        net = search.get_step_model().net
        rows = net.Gather([table, search.get_previous_tokens()], "rows")
        flat = net.Reshape([rows], ["flat", "flat_shape"], shape=[-1, size])[0]
        extra: dict[str, Any] = {"word_rewards": core.BlobReference("rewards")} if given == "rewarded" else {}
        if given == "chosen":
            extra = {"possible_translation_tokens": core.BlobReference("words")}
        tokens, before, scores, _ = search.apply(inputs, length, flat, attended, [], [], **extra)
    by_word = np.zeros((9, size), np.float32)
    by_word[words] = log_probs
    by_word[go] = log_probs[1]
    fed = {
        "table": by_word,
        "rewards": rewards,
        "words": words,
        "inputs": np.array([[4], [5]], np.int32),
        "length": np.array([2]),
    }
    for name, value in {**fed, "attended": np.zeros((size, 2), np.float32)}.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)

    ways: list[tuple[float, tuple[int, int]]] = []
    for first, second in itertools.product(range(size), repeat=2):
        one, other = words[first], words[second]
        score = by_word[go, first] + by_word[one, second]
        score += rewards[one] + rewards[other] if given == "rewarded" else 0
        score += PENALTY if given == "penalized" and one == end else 0
        ways.append((float(score), (int(one), int(other))))
    ways.sort(reverse=True)
    found_tokens, found_before = (workspace.FetchBlob(blob)[:, :, 0] for blob in (tokens, before))
    found = [(int(found_tokens[1, found_before[2, i]]), int(found_tokens[2, i])) for i in range(size)]
    assert found == [way for _, way in ways[:size]]
    np.testing.assert_allclose(workspace.FetchBlob(scores)[2, :, 0], [score for score, _ in ways[:size]], rtol=1e-5)


# -- programs ----------------------------------------------------------------------------------------------------------


def parsed(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *words: str) -> Any:
    """Return what the main function of a program calls its work with."""
    seen: list[Any] = []

    def work(args: Any, **given: Any) -> None:
        seen.append((args, given))

    monkeypatch.setattr(module, name, work)
    monkeypatch.setattr(sys, "argv", ["program", "--source-corpus", "s", "--target-corpus", "t", *words])
    state = random.getstate()
    module.main()
    random.setstate(state)
    ((args, given),) = seen
    return args, given


def test_programs_take_the_arguments_that_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = ("--source-corpus-eval", "se", "--target-corpus-eval", "te")
    args, given = parsed(monkeypatch, train, "run_seq2seq_model", *evaluated, "--use-attention")
    assert (args.unk_threshold, args.max_length, args.epochs, args.num_gpus, args.checkpoint) == (50, None, 10, 0, None)
    two = [{"num_units": 512}] * 2
    assert given["model_params"] == {
        "attention": "regular",
        "decoder_layer_configs": two,
        "encoder_type": {"encoder_layer_configs": two, "use_bidirectional_encoder": False},
        "batch_size": 32,
        "optimizer_params": {"learning_rate": 0.5},
        "encoder_embedding_size": 256,
        "decoder_embedding_size": 512,
        "decoder_softmax_size": None,
        "max_gradient_norm": 1.0,
    }
    extents = ("--encoder-num-layers", "3", "--encoder-cell-num-units", "64", "--use-bidirectional-encoder")
    _, given = parsed(monkeypatch, translate, "run_seq2seq_beam_decoder", "--checkpoint", "c", *extents)
    assert given["decoding_params"] == {"beam_size": 6, "word_reward": 0.0, "unk_reward": 0.0}
    assert given["model_params"]["attention"] == "none"
    assert given["model_params"]["encoder_type"]["encoder_layer_configs"] == [{"num_units": 32}] * 3


def test_units_of_an_encoder_that_reads_both_ways_are_even() -> None:
    args = Namespace(encoder_cell_num_units=7, use_bidirectional_encoder=True)
    with pytest.raises(ArgumentError, match="7 units"):
        _arguments.encoder_decoder_params(args)


@pytest.mark.slow
def test_what_one_program_learns_another_translates_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = record_sentences.write_corpora(str(tmp_path))
    args = Namespace(source_corpus=source, target_corpus=target, source_corpus_eval=source, target_corpus_eval=target)
    args.unk_threshold, args.max_length, args.num_gpus, args.epochs = 0, 3, 0, 3
    args.checkpoint = str(tmp_path / "kept")
    given = record_sentences.MODELS["attention"]
    with caplog.at_level(logging.INFO, logger=train.logger.name):
        train.run_seq2seq_model(args, model_params=given)
    losses = [float(text.split()[-1]) for text in caplog.messages if text.startswith("\ttraining loss")]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 3
    assert workspace.Blobs() == []
    last = f"{args.checkpoint}-2"
    text = (tmp_path / "checkpoint").read_text()
    assert text == f'model_checkpoint_path: "{last}"\nall_model_checkpoint_paths: "{last}"\n'

    args.checkpoint = last
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b\n\nnone\n"))
    decoding = {"beam_size": 2, "word_reward": 0.0, "unk_reward": 0.0}
    translate.run_seq2seq_beam_decoder(args, model_params=given, decoding_params=decoding)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert {word for line in lines for word in line.split()} <= {
        *record_sentences.LETTERS,
        *seq2seq_util.gen_vocab(source, 99),
    }


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    given = settings()
    _, file = saved(tmp_path, given)
    with pytest.raises(ArgumentError, match="without words"):
        decoder_of((given, file)).decode([], 3)
    more = settings(decoder_layer_configs=[{"num_units": 5}] * 2)
    workspace.ResetWorkspace()
    with pytest.raises(NotFoundError, match="decoder_initial_hidden_state_1"):
        decoder_of((more, file))
    with pytest.raises(AssertionError, match="Unknown type soft"):
        train.Seq2SeqModelCaffe2(settings("soft"), 7, 8, num_gpus=0).initialize_from_scratch()
    model = train.Seq2SeqModelCaffe2(given, 7, 8, num_gpus=0)
    with pytest.raises(ArgumentError, match="without a pair"):
        model.step([], forward_only=True)


def test_a_new_word_gets_the_next_number(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text("a b b\n")
    vocabulary = seq2seq_util.gen_vocab(tmp_path / "corpus", 1)
    assert seq2seq_util.get_numberized_sentence("a b", vocabulary) == [seq2seq_util.UNK_ID, 4]
    assert [vocabulary["new"], vocabulary["newer"], vocabulary["new"]] == [5, 6, 5]


def test_flags_of_the_old_log_are_passed_over() -> None:
    """A model sets one of them for the whole process."""
    workspace.GlobalInit(["program", "--v=0", "--minloglevel=1", "--logtostderr=1", "--caffe2_mkl_num_threads=2"])
    with pytest.raises(InitError, match="unknown flag"):
        workspace.GlobalInit(["program", "--vmodule=1"])
