"""Normalization in the weights of the layer before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.rewriting import Rewrite, check_rewrite

VECTORS = {name: (4,) for name in ("b", "s", "i", "m", "v")}
CONV = {"x": (2, 3, 5, 7), "w": (4, 3, 2, 3), **VECTORS}
CONSTANT = "w b s i m v"
ARGS = "kernels=[2, 3]"
BN = "SpatialBN(y, s, i, m, v; is_test=1, epsilon=0.5)"
BEFORE = f"in: x, w, b, s, i, m, v\nout: z\ny = Conv(x, w, b; {ARGS})\nz = {BN}"
FOLD = "FoldBatchNorm(w, b, s, i, m, v; axis=0, group=1, epsilon=0.5)"


def after(fold: str, layer: str, inputs: str = "x, w, b, s, i, m, v", bias: str = "b_folded") -> str:
    """Return the net with the fold before the layer."""
    return f"in: {inputs}\nout: z\nw_folded, {bias} = {fold}\nz = {layer}"


CASES = [
    Rewrite("Conv", BEFORE, after(FOLD, f"Conv(x, w_folded, b_folded; {ARGS})"), CONV, constants=CONSTANT),
    Rewrite(
        "Conv without bias",
        f"in: x, w, s, i, m, v\nout: z\ny = Conv(x, w; {ARGS})\nz = {BN}",
        after(
            "FoldBatchNorm(w, s, i, m, v; axis=0, group=1, epsilon=0.5)",
            f"Conv(x, w_folded, y_bias_folded; {ARGS})",
            "x, w, s, i, m, v",
            "y_bias_folded",
        ),
        {name: dims for name, dims in CONV.items() if name != "b"},
        constants=CONSTANT,
    ),
    Rewrite(
        "channels last, and groups",
        "in: x, w, b, s, i, m, v\nout: z\n"
        'y = Conv(x, w, b; kernels=[2, 3], order="NHWC", group=2)\n'
        'z = SpatialBN(y, s, i, m, v; is_test=1, epsilon=0.5, order="NHWC")',
        after(
            "FoldBatchNorm(w, b, s, i, m, v; axis=0, group=2, epsilon=0.5)",
            'Conv(x, w_folded, b_folded; kernels=[2, 3], order="NHWC", group=2)',
        ),
        {"x": (2, 5, 7, 6), "w": (4, 2, 3, 3), **VECTORS},
        constants=CONSTANT,
    ),
    Rewrite(
        "FC",
        f"in: x, w, b, s, i, m, v\nout: z\ny = FC(x, w, b)\nz = {BN}",
        after(FOLD, "FC(x, w_folded, b_folded)"),
        {"x": (2, 3), "w": (4, 3), **VECTORS},
        constants=CONSTANT,
    ),
    Rewrite(
        "AffineChannel",
        f"in: x, w, b, s, i\nout: z\ny = Conv(x, w, b; {ARGS})\nz = AffineChannel(y, s, i)",
        after(
            "FoldAffineChannel(w, b, s, i; axis=0, group=1)",
            f"Conv(x, w_folded, b_folded; {ARGS})",
            "x, w, b, s, i",
        ),
        {name: dims for name, dims in CONV.items() if name not in "mv"},
        constants=CONSTANT,
    ),
    Rewrite(
        "in place, device and name kept",
        f"in: x, w, b, s, i, m, v\nout: y\ny = Conv(x, w, b; {ARGS}) @cuda:1 name=first\n"
        "y = SpatialBN(y, s, i, m, v; is_test=1) @cuda:1",
        "in: x, w, b, s, i, m, v\nout: y\n"
        "w_folded, b_folded = FoldBatchNorm(w, b, s, i, m, v; axis=0, group=1, epsilon=9.999999747378752e-06) @cuda:1\n"
        f"y = Conv(x, w_folded, b_folded; {ARGS}) @cuda:1 name=first",
        constants=CONSTANT,
    ),
    Rewrite("parameters that change", BEFORE, None, CONV, constants="w b s i m"),
    Rewrite("weights that change", BEFORE, None, CONV, constants="b s i m v"),
    Rewrite("what is between is an output", BEFORE.replace("out: z", "out: z, y"), None, CONV, constants=CONSTANT),
    Rewrite("what is between is kept", BEFORE, None, CONV, constants=CONSTANT, keep="y"),
    Rewrite("what is between is read elsewhere", f"{BEFORE}\nq = Relu(y)", None, CONV, constants=CONSTANT, keep="q z"),
    Rewrite("other devices", f"{BEFORE.replace('])', ']) @cuda:0')} @cuda:1", constants=CONSTANT),
    Rewrite(
        "it trains",
        BEFORE.replace(BN, "SpatialBN(y, s, i, m, v; is_test=0)").replace("z =", "z, m, v, sm, si ="),
        None,
        CONV,
        constants=CONSTANT,
    ),
    Rewrite(
        "other channels",
        BEFORE.replace("is_test=1", 'is_test=1, order="NHWC"'),
        None,
        {"x": (2, 3, 5, 6), "w": (4, 3, 2, 3), **VECTORS},
        constants=CONSTANT,
    ),
    Rewrite(
        "the input of the layer is overwritten before the normalization",
        f"in: x, g, w, b, s, i, m, v\nout: z\ny = Conv(x, w, b; {ARGS})\nx = Sum(x, g)\nz = {BN}",
        None,
        {**CONV, "g": CONV["x"]},
        constants=CONSTANT,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fold_batch_norm(case: Rewrite) -> None:
    check_rewrite("fold_batch_norm", case)


def test_two_in_a_row_are_folded_one_after_the_other() -> None:
    before = (
        f"in: x, w, b, s, i, m, v\nout: z\ny = Conv(x, w, b; {ARGS})\n"
        "t = SpatialBN(y, s, i, m, v; is_test=1, epsilon=0.5)\nz = AffineChannel(t, s, i)"
    )
    expected = (
        f"in: x, w, b, s, i, m, v\nout: z\nw_folded, b_folded = {FOLD}\n"
        "w_folded_2, b_folded_2 = FoldAffineChannel(w_folded, b_folded, s, i; axis=0, group=1)\n"
        f"z = Conv(x, w_folded_2, b_folded_2; {ARGS})"
    )
    made = check_rewrite("fold_batch_norm", Rewrite("", before, expected, CONV, constants=CONSTANT))
    assert made.gone == {"y": "folded into Conv 'z'", "t": "folded into Conv 'z'"}
    assert made.origins[2] == ("Conv 'y'", "SpatialBN 't'", "AffineChannel 'z'")


SCALED = {name: dims for name, dims in CONV.items() if name not in "mv"}
IN = "in: x, w, b, s, i\nout: z"
LAYER = f"y = Conv(x, w, b; {ARGS})"
ALONG = "broadcast=1, axis=1"
ZERO = "s_zero = ConstantFill(s; value=0.0)"


def planned(
    id: str, before: str, after: str | None, dims: Mapping[str, tuple[int, ...]] = SCALED, constants: str = "w b s i"
) -> Rewrite:
    """Return a case in which only constants are known, as in a plan that has not run."""
    return Rewrite(id, before, after, dims, constants=constants, planned=True)


VECTOR_CASES = [
    planned(
        "Mul and Add",
        f"{IN}\n{LAYER}\nt = Mul(y, s; {ALONG})\nz = Add(t, i; {ALONG})",
        f"{IN}\n{ZERO}\nw_folded, b_folded = FoldAffineChannel(w, b, s, s_zero; axis=0, group=1)\n"
        f"b_folded_2 = Add(b_folded, i)\nz = Conv(x, w_folded, b_folded_2; {ARGS})",
    ),
    planned(
        "in place, and the vectors first",
        f'in: x, w, s, i\nout: y\ny = Conv(x, w; {ARGS}, order="NHWC")\ny = Mul(s, y)\ny = Add(i, y)',
        f"in: x, w, s, i\nout: y\n{ZERO}\n"
        "w_folded, y_bias_folded = FoldAffineChannel(w, s, s_zero; axis=0, group=1)\n"
        "y_bias_folded_2 = Add(y_bias_folded, i)\n"
        f'y = Conv(x, w_folded, y_bias_folded_2; {ARGS}, order="NHWC")',
        {"x": (2, 5, 7, 3), "w": (4, 2, 3, 3), "s": (4,), "i": (4,)},
    ),
    planned(
        "Mul alone, no vector",
        f"{IN}\n{LAYER}\nz = Mul(y, s)",
        f"{IN}\n{ZERO}\nw_folded, b_folded = FoldAffineChannel(w, b, s, s_zero; axis=0, group=1)\n"
        f"z = Conv(x, w_folded, b_folded; {ARGS})",
        {**SCALED, "s": (4, 1, 1)},
    ),
    planned(
        "Add alone, no vector",
        f"{IN}\ny = FC(x, w, b)\nz = Add(y, i)",
        f"{IN}\ni_vector = FlattenToVec(i)\nb_folded = Add(b, i_vector)\nz = FC(x, w, b_folded)",
        {"x": (2, 3), "w": (4, 3), "b": (4,), "s": (4,), "i": (1, 4)},
    ),
    planned(
        "behind a normalization",
        f"{IN}\n{LAYER}\nt = AffineChannel(y, s, i)\nz = Add(t, i; {ALONG})",
        f"{IN}\nw_folded, b_folded = FoldAffineChannel(w, b, s, i; axis=0, group=1)\n"
        f"b_folded_2 = Add(b_folded, i)\nz = Conv(x, w_folded, b_folded_2; {ARGS})",
    ),
    planned(
        "ConvTranspose with groups",
        f"{IN}\ny = ConvTranspose(x, w, b; {ARGS}, group=2)\nz = Mul(y, s; {ALONG})",
        f"{IN}\n{ZERO}\nw_folded, b_folded = FoldAffineChannel(w, b, s, s_zero; axis=1, group=2)\n"
        f"z = ConvTranspose(x, w_folded, b_folded; {ARGS}, group=2)",
        {"x": (2, 6, 5, 7), "w": (6, 4, 2, 3), "b": (8,), "s": (8,), "i": (8,)},
    ),
    planned("it changes", f"{IN}\n{LAYER}\nz = Mul(y, s; {ALONG})", None, constants="w b i"),
    planned("weights that change", f"{IN}\n{LAYER}\nz = Mul(y, s; {ALONG})", None, constants="b s i"),
    planned("one number", f"{IN}\n{LAYER}\nz = Mul(y, s; {ALONG})", None, {**SCALED, "s": (1,)}),
    planned("along another axis", f"{IN}\n{LAYER}\nz = Mul(y, s; broadcast=1, axis=2)", None),
    planned("a square", f"{IN}\n{LAYER}\nz = Mul(y, y)", None),
    planned("an output", f"{IN}, y\n{LAYER}\nz = Mul(y, s; {ALONG})", None),
    planned("read elsewhere", f"{IN}, q\n{LAYER}\nz = Mul(y, s; {ALONG})\nq = Relu(y)", None),
    planned(
        "a gradient reads it", f"{IN}, ds\n{LAYER}\nz = Mul(y, s; {ALONG})\n_, ds = MulGradient(z, y, s; {ALONG})", None
    ),
]


@pytest.mark.parametrize("case", VECTOR_CASES, ids=lambda case: case.id)
def test_vectors_are_folded(case: Rewrite) -> None:
    check_rewrite("fold_batch_norm", case)
