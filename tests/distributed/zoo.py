"""Every classifier of the zoo, small: what it learns on two ranks, which are threads, and in one process.

python -m tests.distributed.zoo [NET ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tazza.models.zoo import CLASSIFIERS
from tests.distributed.cases import CASES, train_alone, zoo_case
from tests.distributed.thread_ranks import check_same, ranks_of

ZOO = {
    "googlenet": zoo_case("googlenet", size=32, width=0.03125),
    "lenet": CASES["lenet"],
    "mlp": zoo_case("mlp", size=28, hidden=(7,)),
    "mobilenet_v2": zoo_case("mobilenet_v2", size=32, stages=((1, 4, 1, 1), (6, 6, 2, 2))),
    "resnet50": zoo_case("resnet50", size=32, width=0.0625, blocks=(1, 1, 1, 1)),
    "squeezenet": zoo_case("squeezenet", size=31, width=0.0625),
    "vgg16": zoo_case("vgg16", size=32, width=0.03125),
}


def check_classifier(net: str, net_type: str) -> None:
    """Check that two ranks have the parameters of one process: the same bits, but for the type `plan`.

    Raises:
        AssertionError: they have others.
    """
    found = ranks_of(net, 2, net_type, cases=ZOO)
    check_same(found[0], found[1], 0)
    check_same(found[0], train_alone(ZOO[net], 2), 1e-4 if net_type == "plan" else 0)


def main(nets: Sequence[str]) -> None:
    """Check some or all of them in all types of nets, and say how long that took."""
    assert ZOO.keys() == set(CLASSIFIERS.keys()), "each has a row above"
    for net in nets if nets else ZOO:
        for net_type in ("simple", "dag", "async_scheduling", "plan"):
            began_s = time.monotonic()
            check_classifier(net, net_type)
            print(f"{net} {net_type}: as in one process; {time.monotonic() - began_s:.1f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
