"""Data parallelism between threads: the losses and parameters of one process, whatever runs the nets."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tazza.distributed.data_parallel import Exchanging
from tazza.models.zoo import CLASSIFIERS
from tests.distributed.cases import CASES, Trained, train_alone
from tests.distributed.thread_ranks import check_same, ranks_of
from tests.distributed.zoo import ZOO, check_classifier


@functools.cache
def alone(case: str, ranks: int) -> Trained:
    return train_alone(CASES[case], ranks)


SLOW = pytest.param("lenet", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("net_type", ["simple", "dag", "async_scheduling", "plan"])
@pytest.mark.parametrize("case", ["normalized", "clicks", SLOW])
def test_two_ranks_learn_what_one_process_does(case: str, net_type: str) -> None:
    found = ranks_of(case, 2, net_type)
    check_same(found[0], found[1], 0)
    check_same(found[0], alone(case, 2), 1e-4 if net_type == "plan" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("net", ["mlp", "mobilenet_v2", "resnet50", "squeezenet"])
def test_classifiers_of_the_zoo_learn_on_two_ranks_what_they_do_in_one_process(net: str) -> None:
    """Those that drop numbers by chance too; all of them: `python -m tests.distributed.zoo`."""
    check_classifier(net, "dag")


def test_no_classifier_of_the_zoo_is_left_out() -> None:
    assert ZOO.keys() == set(CLASSIFIERS.keys())


@pytest.mark.slow
@pytest.mark.parametrize("case", ["normalized", "clicks", SLOW])
def test_four_ranks_do_too_and_so_does_a_joint_batch_without_normalization(case: str) -> None:
    found = ranks_of(case, 4, "simple", Exchanging(bucket_bytes=2000))
    for one in found[1:]:
        check_same(found[0], one, 0)
    check_same(found[0], alone(case, 4), 1e-5)
    if case != "normalized":  # whose means are those of a share
        check_same(found[0], alone(case, 1), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("sent_as", "slack"), [("bfloat16", 1e-3), ("float16", 1e-4)])
def test_gradients_may_go_around_in_few_bytes(sent_as: str, slack: float) -> None:
    """Each is rounded once, by 8 or 11 bits: losses part by a third of the slack."""
    exact, rounded = alone("lenet", 2), ranks_of("lenet", 2, "simple", Exchanging(sent_as=sent_as))
    check_same(rounded[0], rounded[1], 0)
    assert rounded[0].losses != exact.losses
    np.testing.assert_allclose(rounded[0].losses, exact.losses, rtol=slack)
