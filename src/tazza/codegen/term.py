"""Terms: values of a kernel under construction, each with its LLVM type; arithmetic on them writes instructions.

    y = (i * 4 + 1).to("float")     %v1 = mul i64 %i, 4
                                    %v2 = add i64 %v1, 1
                                    %v3 = sitofp i64 %v2 to float

A number of Python beside a value is a constant of its type; two values beside each other must have one type. Integers
have a sign where they are compared, made longer or shifted to the right; `//`, `%`, `pieces` and `below` are for those
that are not negative. An address knows the type of what lies there: `p[i]` reads element i, and `p[i] = x` writes it.
What cannot be is refused where it is written: halves of integers, sums of addresses, `==` (which is `equals`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeAlias

from tazza.errors import DTypeError

SHORT = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
"""LLVM's types, and what names of intrinsics call them; integers by their own name."""
FLOAT_BITS = {"half": 16, "float": 32, "double": 64}
BITWISE = frozenset({"and", "or", "xor"})
"""Instructions on integers that truths have too."""


class Lines:
    """The lines of a function under construction, and the outside functions that they need."""

    def __init__(self, *, grid: bool = False) -> None:
        """Start empty; `grid` for what threads of a GPU do."""
        self.grid = grid
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "entry"
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        """Return a name that was not there before, without a sigil."""
        self._count += 1
        return f"{stem}{self._count}"

    def let(self, type: str, text: str) -> Term:
        """Add an instruction and return its value, of that type."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return Term(self, type, name)

    def do(self, text: str) -> None:
        """Add an instruction without value."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def declare(self, text: str) -> None:
        """Need an outside function."""
        self.declared[f"declare {text}"] = None

    def text(self, signature: str, attributes: str = "") -> str:
        """Return the function."""
        return "\n".join((f"define {signature} {attributes} {{", *self.lines, "}"))

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def who(self) -> Term:
        """Which thread this is."""
        return Term(self, "i64", "%who")

    @property
    def many(self) -> Term:
        """How many threads there are."""
        return Term(self, "i64", "%many")

    @property
    def block_start(self) -> Term:
        """The address of the argument block, whose words are int64."""
        return Term(self, "ptr", "%block", "i64")

    def number(self, number: float, type: str = "i64") -> Term:
        """Return a constant."""
        return Term(self, type, literal(type, number))

    def poison(self, type: str) -> Term:
        """Return a value of which nobody reads what is not written first."""
        return Term(self, type, "poison")

    def room(self, type: str, align: int | None = None, count: int = 1) -> Term:
        """Return the address of a place for so many of a type on the stack; in a loop each turn would take more."""
        several = "" if count == 1 else f", i64 {count}"
        return self.let("ptr", f"alloca {type}{several}{_aligned(align)}").of(type)

    def call(self, type: str, name: str, *operands: Term) -> Term:
        """Call an outside function."""
        return self.let(type, self._call(type, name, operands))

    def call_for_effect(self, name: str, *operands: Term) -> None:
        """Call an outside function that returns nothing."""
        self.do(self._call("void", name, operands))

    def _call(self, type: str, name: str, operands: Iterable[Term]) -> str:
        operands = tuple(operands)
        self.declare(f"{type} @{name}({', '.join(one.type for one in operands)})")
        return f"call {type} @{name}({', '.join(one.typed for one in operands)})"


class Term:
    """A value by the text that names it, its LLVM type, and the lines in which instructions on it are written.

    Attributes:
        element: for an address, the type of what lies there, if it is said.

    >>> lines = Lines()
    >>> i = Term(lines, "i64", "%i")
    >>> small = 3 * i + 1 < 10
    >>> small.type, lines.lines
    ('i1', ['  %v1 = mul i64 3, %i', '  %v2 = add i64 %v1, 1', '  %v3 = icmp slt i64 %v2, 10'])
    """

    __slots__ = ("element", "lines", "text", "type")

    def __init__(self, lines: Lines, type: str, text: str, element: str = "") -> None:
        """Name a value that is there."""
        self.lines, self.type, self.text, self.element = lines, type, text, element

    def __str__(self) -> str:
        """Return what names it in IR."""
        return self.text

    def __bool__(self) -> bool:
        """Raise: what a kernel finds out is not there yet."""
        raise DTypeError(f"{self.typed} is true or false when the kernel runs: use choose, or when")

    def __eq__(self, other: object) -> NoReturn:
        """Raise: whether two are equal is found out when the kernel runs."""
        raise DTypeError(f"{self.typed} == {other}: use equals, or differs")

    __hash__ = object.__hash__

    def __iter__(self) -> NoReturn:
        """Raise: how many elements there are is not said."""
        raise DTypeError(f"{self.typed} has no end: use a loop of the kernel")

    @property
    def typed(self) -> str:
        """The type and the name, as operands of calls have them."""
        return f"{self.type} {self.text}"

    @property
    def scalar(self) -> str:
        """The type, or that of one lane."""
        return scalar_of(self.type)

    @property
    def bits(self) -> int:
        """How many bits a lane has."""
        return bits_of(self.scalar)

    @property
    def is_float(self) -> bool:
        """Whether it is a float, or lanes of them."""
        return self.scalar in FLOAT_BITS

    @property
    def kind(self) -> str:
        """What it is, or what its lanes are: floats, addresses, truths or integers."""
        return "floats" if self.is_float else {"ptr": "addresses", "i1": "truths"}.get(self.scalar, "integers")

    @property
    def count(self) -> int:
        """How many lanes there are; 1 for what is no vector."""
        return int(self.type[1:].split(" ")[0]) if self.type[0] == "<" else 1

    def shaped(self, scalar: str) -> str:
        """Return the type of as many lanes of another type."""
        return f"<{self.count} x {scalar}>" if self.type[0] == "<" else scalar

    def like(self, number: float) -> Term:
        """Return a constant of this type."""
        return self.lines.number(number, self.type)

    def operand(self, other: Number) -> str:
        """Return what names another operand of this type.

        Raises:
            DTypeError: it has another type.
        """
        if not isinstance(other, Term):
            return literal(self.type, other)
        if other.type != self.type:
            raise DTypeError(f"{other.typed} beside {self.typed}: one operand has to be converted")
        return other.text

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def op(self, name: str, other: Number, *, swapped: bool = False) -> Term:
        """Write an instruction on two values of one type, such as `sdiv`; `swapped` with the other one in front."""
        a, b = self.text, self.operand(other)
        wanted = ("floats",) if name[0] == "f" else ("integers", "truths") if name in BITWISE else ("integers",)
        if self.kind not in wanted:
            raise DTypeError(f"{name} of {self.typed}: it is for {' or '.join(wanted)}")
        return self.lines.let(self.type, f"{name} {self.type} {b if swapped else a}, {a if swapped else b}")

    def _arithmetic(self, name: str, other: Number, *, swapped: bool = False) -> Term:
        return self.op(f"f{name}" if self.is_float else name, other, swapped=swapped)

    def __add__(self, other: Number) -> Term:
        """Self + other."""
        return self._arithmetic("add", other)

    def __radd__(self, other: float) -> Term:
        """Other + self."""
        return self._arithmetic("add", other, swapped=True)

    def __sub__(self, other: Number) -> Term:
        """Self - other."""
        return self._arithmetic("sub", other)

    def __rsub__(self, other: float) -> Term:
        """Other - self."""
        return self._arithmetic("sub", other, swapped=True)

    def __mul__(self, other: Number) -> Term:
        """Self * other."""
        return self._arithmetic("mul", other)

    def __rmul__(self, other: float) -> Term:
        """Other * self."""
        return self._arithmetic("mul", other, swapped=True)

    def __truediv__(self, other: Number) -> Term:
        """Self / other, of floats."""
        return self.op("fdiv", other)

    def __rtruediv__(self, other: float) -> Term:
        """Other / self, of floats."""
        return self.op("fdiv", other, swapped=True)

    def __floordiv__(self, other: Number) -> Term:
        """Self / other without the rest, of integers that are not negative."""
        return self.op("udiv", other)

    def __mod__(self, other: Number) -> Term:
        """The rest of it."""
        return self.op("urem", other)

    def __neg__(self) -> Term:
        """-self."""
        if self.is_float:
            return self.lines.let(self.type, f"fneg {self.typed}")
        return 0 - self

    def __rfloordiv__(self, other: float) -> Term:
        """Other // self."""
        return self.op("udiv", other, swapped=True)

    def __rmod__(self, other: float) -> Term:
        """Other % self."""
        return self.op("urem", other, swapped=True)

    def __abs__(self) -> Term:
        """The size of floats."""
        if not self.is_float:
            raise DTypeError(f"the size of {self.typed}: it is for floats")
        return self.intrinsic("fabs")

    def pieces(self, size: Number) -> Term:
        """Return how many pieces of a size cover it."""
        return (self + (size - 1)) // size

    def intrinsic(self, name: str, *others: Number) -> Term:
        """Call an intrinsic whose operands and result have this type: smin, fma, sqrt."""
        operands = (Term(self.lines, self.type, self.operand(one)) for one in others)
        return self.lines.call(self.type, f"llvm.{name}.{short(self.type)}", self, *operands)

    def fma(self, b: Number, c: Number) -> Term:
        """Self * b + c, rounded once where the processor can."""
        return self.intrinsic("fmuladd", b, c)

    def polynomial(self, coefficients: Sequence[float]) -> Term:
        """c0 + c1 x + c2 x^2 + ... by Horner's rule."""
        value = self.like(coefficients[-1])
        for one in reversed(coefficients[:-1]):
            value = value.fma(self, one)
        return value

    def copy_sign(self, sign: Number) -> Term:
        """Return the same size with another sign."""
        return self.intrinsic("copysign", sign)

    def at_most(self, other: Number) -> Term:
        """The smaller one of two; NaN stays, but for one in `other`."""
        return (self > other).choose(other, self) if self.is_float else self.intrinsic("smin", other)

    def at_least(self, other: Number) -> Term:
        """The larger one of two; NaN stays, but for one in `other`."""
        return (self < other).choose(other, self) if self.is_float else self.intrinsic("smax", other)

    # -- bits and masks ------------------------------------------------------------------------------------------------

    def __and__(self, other: Number) -> Term:
        """Bits that both have."""
        return self.op("and", other)

    def __or__(self, other: Number) -> Term:
        """Bits that one has."""
        return self.op("or", other)

    def __xor__(self, other: Number) -> Term:
        """Bits in which they differ."""
        return self.op("xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Number) -> Term:
        """Bits so many places to the left."""
        return self.op("shl", other)

    def __rshift__(self, other: Number) -> Term:
        """Bits so many places to the right; the sign comes after them."""
        return self.op("ashr", other)

    def __rlshift__(self, other: int) -> Term:
        """Other << self."""
        return self.op("shl", other, swapped=True)

    def shifted_down(self, other: Number) -> Term:
        """Bits so many places to the right; zeros come after them."""
        return self.op("lshr", other)

    def __invert__(self) -> Term:
        """Bits that it does not have."""
        return self ^ (True if self.scalar == "i1" else -1)

    def trailing_zeros(self) -> Term:
        """How many of the lowest bits are not set, where one is."""
        return self.lines.call(self.type, f"llvm.cttz.{self.type}", self, self.lines.number(True, "i1"))

    # -- comparison ----------------------------------------------------------------------------------------------------

    def compare(self, predicate: str, other: Number) -> Term:
        """Return the truth of `icmp`, or for floats `fcmp`, such as ult, or uno (one of them is NaN)."""
        name = "fcmp" if self.is_float else "icmp"
        return self.lines.let(self.shaped("i1"), f"{name} {predicate} {self.type} {self}, {self.operand(other)}")

    def _ordered(self, predicate: str, other: Number) -> Term:
        return self.compare(f"{'o' if self.is_float else 's'}{predicate}", other)

    def __lt__(self, other: Number) -> Term:
        """Whether it is smaller; NaN is not."""
        return self._ordered("lt", other)

    def __le__(self, other: Number) -> Term:
        """Whether it is smaller or equal; NaN is not."""
        return self._ordered("le", other)

    def __gt__(self, other: Number) -> Term:
        """Whether it is larger; NaN is not."""
        return self._ordered("gt", other)

    def __ge__(self, other: Number) -> Term:
        """Whether it is larger or equal; NaN is not."""
        return self._ordered("ge", other)

    def equals(self, other: Number) -> Term:
        """Whether they are equal; NaN is not."""
        return self.compare("oeq" if self.is_float else "eq", other)

    def differs(self, other: Number) -> Term:
        """Whether they are not equal; NaN is not."""
        return self.compare("une" if self.is_float else "ne", other)

    def is_nan(self) -> Term:
        """Whether it is no number."""
        return self.compare("uno", self)

    def is_number(self) -> Term:
        """Whether it is a number, or infinite."""
        return self.compare("ord", self)

    def below(self, other: Number) -> Term:
        """Whether 0 <= self < other, of integers: without a sign, what is negative is large."""
        return self._unsigned("ult", other)

    def outside(self, other: Number) -> Term:
        """Whether it is negative, or not below the other one: the number of none of so many things."""
        return self._unsigned("uge", other)

    def _unsigned(self, predicate: str, other: Number) -> Term:
        if self.kind != "integers":
            raise DTypeError(f"{predicate} of {self.typed}: of floats it would let NaN pass")
        return self.compare(predicate, other)

    def choose(self, yes: Number, no: Number) -> Term:
        """Return one of two values, or lanes of both, by a truth; one of them at the least is no constant."""
        given = yes if isinstance(yes, Term) else no
        if self.scalar != "i1" or not isinstance(given, Term):
            raise DTypeError(f"{self.typed} ? {yes} : {no}: it takes a truth, and a value at the least")
        first, second = given.operand(yes), given.operand(no)
        found = self.lines.let(given.type, f"select {self.typed}, {given.type} {first}, {given.type} {second}")
        return found.of(given.element)

    def within(self, mask: Term | None) -> Term:
        """Return the truths that hold where a mask is set, or all of them where there is none."""
        return self if mask is None else self & mask

    def masked(self, mask: Term | None, otherwise: Number) -> Term:
        """Return this where a mask is set, or everywhere where there is none; otherwise the other one."""
        return self if mask is None else mask.choose(self, otherwise)

    def rarely(self, other: Callable[[], Term], usual: Term) -> Term:
        """Return `usual`, but where a mask is set what `other` writes; costs a branch where it is set nowhere."""
        lines, some = self.lines, self.any()
        here, slow, join = lines.block, lines.fresh("rare"), lines.fresh("join")
        lines.do(f"br i1 {some}, label %{slow}, label %{join}, !prof !0")
        lines.label(slow)
        fixed = self.choose(other(), usual)
        ended = lines.block
        lines.do(f"br label %{join}")
        lines.label(join)
        return lines.let(usual.type, f"phi {usual.type} [ {usual}, %{here} ], [ {fixed}, %{ended} ]")

    def any(self) -> Term:
        """Return whether any lane of a mask is set."""
        return self.bitcast(f"i{self.count}").differs(0)

    # -- types ---------------------------------------------------------------------------------------------------------

    def to(self, scalar: str) -> Term:
        """Return the same number, or lanes of them, in another type: integers with their sign, floats rounded.

        A truth is 1 where it holds, else 0.
        """
        return self.to_unsigned(scalar) if self.scalar == "i1" else self._converted(scalar, "sext", "sitofp", "fptosi")

    def filled(self, scalar: str) -> Term:
        """Return integers with all bits set where a truth holds, and with none elsewhere."""
        return self._cast("sext", self.shaped(scalar))

    def to_unsigned(self, scalar: str) -> Term:
        """Return the same number in another type: integers, and truths, have no sign."""
        return self._converted(scalar, "zext", "uitofp", "fptoui")

    def _converted(self, scalar: str, longer: str, to_float: str, to_integer: str) -> Term:
        if scalar == self.scalar:
            return self
        if (self.scalar, scalar) == ("double", "half"):
            return self._rounded_to_odd().to("half")
        wider = bits_of(scalar) > bits_of(self.scalar)
        name = {
            (False, False): longer if wider else "trunc",
            (False, True): to_float,
            (True, False): to_integer,
            (True, True): "fpext" if wider else "fptrunc",
        }[self.scalar in FLOAT_BITS, scalar in FLOAT_BITS]
        return self._cast(name, self.shaped(scalar))

    def _rounded_to_odd(self) -> Term:
        """Return doubles as floats that, rounded once more to fewer bits, are what one rounding would have made.

        Few processors round a double to a half; LLVM calls a function for that which the process lacks.
        Source: Boldo and Melquiond, When double rounding is odd, 2005.
        """
        near = self.to("float")
        back, bits = near.to("double"), near.as_bits()
        toward_zero = bits - (abs(back) > abs(self)).to("i32")
        return back.equals(self).choose(bits, toward_zero | 1).as_floats()

    def _cast(self, name: str, type: str) -> Term:
        return self.lines.let(type, f"{name} {self.typed} to {type}")

    def bitcast(self, type: str) -> Term:
        """Return the same bits as another type, of as many bits."""
        return self._cast("bitcast", type)

    def as_bits(self) -> Term:
        """Return the bits of floats as integers."""
        return self.bitcast(self.shaped(f"i{self.bits}"))

    def as_floats(self) -> Term:
        """Return floats of these bits."""
        return self.bitcast(self.shaped("float" if self.scalar == "i32" else "double"))

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def splat(self, count: int) -> Term:
        """Return a vector of so many lanes, all of them this number."""
        kind = f"<{count} x {self.type}>"
        first = self.lines.let(kind, f"insertelement {kind} poison, {self.typed}, i32 0")
        return self.lines.let(kind, f"shufflevector {first.typed}, {kind} poison, <{count} x i32> zeroinitializer")

    def lane(self, number: int | Term) -> Term:
        """Return one lane, by its number or that of an i32 of the kernel."""
        return self.lines.let(self.scalar, f"extractelement {self.typed}, i32 {number}")

    def with_lane(self, number: int, value: Term) -> Term:
        """Return the same vector but for one lane."""
        return self.lines.let(self.type, f"insertelement {self.typed}, {value.typed}, i32 {number}")

    def shuffle(self, order: Iterable[int], other: Term | None = None) -> Term:
        """Return lanes of two vectors in an order; those of the second are counted on."""
        lanes = [f"i32 {lane}" for lane in order]
        second = "poison" if other is None else self.operand(other)
        places = f"<{len(lanes)} x i32> <{', '.join(lanes)}>"
        text = f"shufflevector {self.typed}, {self.type} {second}, {places}"
        return self.lines.let(f"<{len(lanes)} x {self.scalar}>", text)

    def halved(self, join: Callable[[Term, Term], Term], least: int = 1) -> Term:
        """Join one half of the lanes with the other until `least` are left."""
        value = self
        while value.count > least:
            half = value.count // 2
            value = join(*(value.shuffle(range(start, start + half)) for start in (0, half)))
        return value

    def sum(self) -> Term:
        """Return the sum of all lanes, in the fixed order of halves."""
        return self.halved(Term.__add__).lane(0)

    def largest(self) -> Term:
        """Return the largest lane; which one it is among NaN is not told."""
        return self.halved(lambda low, high: (low > high).choose(low, high)).lane(0)

    def each(self, function: str, *others: Term) -> Term:
        """Call a function of libm, such as `powf`, lane by lane."""
        result = self.lines.poison(self.type)
        for lane in range(self.count):
            called = self.lines.call(self.scalar, function, *(one.lane(lane) for one in (self, *others)))
            result = result.with_lane(lane, called)
        return result

    # -- addresses -----------------------------------------------------------------------------------------------------

    def as_pointer(self) -> Term:
        """Return an int64 as the address that it is."""
        return self._cast("inttoptr", "ptr")

    def as_integer(self) -> Term:
        """Return an address as the int64 that it is."""
        return self._cast("ptrtoint", "i64")

    def of(self, element: str) -> Term:
        """Return the same address, of elements of another type."""
        return Term(self.lines, self.type, self.text, element)

    def at(self, i: Number) -> Term:
        """Return the address of element i."""
        type, place = (i.shaped("ptr"), i.typed) if isinstance(i, Term) else ("ptr", f"i64 {literal('i64', i)}")
        if not self.element or self.kind != "addresses" or (isinstance(i, Term) and i.scalar[0] != "i"):
            raise DTypeError(
                f"element {i} of {self.typed}: an address says by `of` what lies there, places are integers"
            )
        return self.lines.let(type, f"getelementptr {self.element}, ptr {self}, {place}").of(self.element)

    def bytes_on(self, nbytes: Number) -> Term:
        """Return the address so many bytes behind, of the same elements."""
        return self.of("i8").at(nbytes).of(self.element)

    def load(self, align: int | None = None) -> Term:
        """Return what lies there.

        Raises:
            DTypeError: it is no address that says what lies there.
        """
        if not self.element or self.kind != "addresses":
            raise DTypeError(f"{self.typed}: an address says by `of` what lies there")
        return self.lines.let(self.element, f"load {self.element}, ptr {self}{_aligned(align)}")

    def store(self, value: Number, align: int | None = None) -> None:
        """Write what lies there.

        Raises:
            DTypeError: elements have another type.
        """
        text = Term(self.lines, self.element, "").operand(value)
        self.lines.do(f"store {self.element} {text}, ptr {self}{_aligned(align)}")

    def add_atomically(self, value: Number, how: str) -> Term:
        """Add to what lies there, whoever else does so at the time, and return what it was; `how` is LLVM's."""
        text = Term(self.lines, self.element, "").operand(value)
        return self.lines.let(self.element, f"atomicrmw add ptr {self}, {self.element} {text} {how}")

    def __getitem__(self, i: Number) -> Term:
        """Return element i."""
        return self.at(i).load()

    def __setitem__(self, i: Number, value: Number) -> None:
        """Write element i."""
        self.at(i).store(value)

    def load_lanes(self, type: str, align: int, mask: Term | None, default: Number = 0) -> Term:
        """Return the vector at an address, a multiple of `align`; lanes outside of the mask are `default`."""
        if mask is None:
            return self.of(type).load(align)
        name = f"llvm.masked.load.{short(type)}.p0"
        return self.lines.call(type, name, self, self._align(align), mask, self._default(type, default))

    def store_lanes(self, value: Term, align: int, mask: Term | None, hint: str = "") -> None:
        """Write the lanes of a mask to an address, a multiple of `align`."""
        if mask is None:
            self.lines.do(f"store {value.typed}, ptr {self}, align {align}{hint}")
        else:
            name = f"llvm.masked.store.{short(value.type)}.p0"
            self.lines.call_for_effect(name, value, self, self._align(align), mask)

    def gather_lanes(self, type: str, align: int, mask: Term, default: Number = 0) -> Term:
        """Return what lies at a vector of addresses; lanes outside of the mask are `default`."""
        name = f"llvm.masked.gather.{short(type)}.{short(self.type)}"
        return self.lines.call(type, name, self, self._align(align), mask, self._default(type, default))

    def scatter_lanes(self, value: Term, align: int, mask: Term) -> None:
        """Write the lanes of a mask to a vector of addresses."""
        name = f"llvm.masked.scatter.{short(value.type)}.{short(self.type)}"
        self.lines.call_for_effect(name, value, self, self._align(align), mask)

    def _align(self, align: int) -> Term:
        return self.lines.number(align, "i32")

    def _default(self, type: str, default: Number) -> Term:
        return Term(self.lines, type, Term(self.lines, type, "").operand(default))

    def prefetch(self, nbytes: int = 0, *, write: bool = False) -> None:
        """Ask for what lies `nbytes` behind, maybe to write it; no address is wrong."""
        how = (self.lines.number(one, "i32") for one in (write, 3, 1))
        self.lines.call_for_effect("llvm.prefetch.p0", self.bytes_on(nbytes), *how)


Number: TypeAlias = "Term | float"
"""A value, or a constant of the type of the one beside it."""


def literal(type: str, number: float) -> str:
    """Return a constant of a type, or a vector that is full of it.

    Raises:
        DTypeError: integers of the type have no such number.

    >>> literal("<8 x i32>", -1), literal("float", 0.5), literal("i1", True)
    ('splat (i32 -1)', '0x3FE0000000000000', 'true')
    """
    scalar = scalar_of(type)
    if scalar != type:
        return f"splat ({scalar} {literal(scalar, number)})"
    if scalar == "i1":
        if number not in (0, 1):
            raise DTypeError(f"{number} is neither true nor false")
        return "true" if number else "false"
    if scalar not in FLOAT_BITS:
        bits = bits_of(scalar)
        if not float(number).is_integer() or not -(1 << (bits - 1)) <= number < 1 << bits:
            raise DTypeError(f"{number} is no {scalar}")
        return str(int(number))
    # LLVM writes float constants of any width as the bits of a double, which has to be one of that width.
    form, most = {"half": ("<e", 65519.0), "float": ("<f", 3.5e38), "double": ("<d", math.inf)}[scalar]
    rounded = struct.unpack(form, struct.pack(form, number))[0] if abs(number) < most else number
    return f"0x{struct.pack('>d', rounded).hex().upper()}"


def scalar_of(type: str) -> str:
    """Return the type of a lane of a vector, or the type."""
    return type[1:-1].split(" x ")[1] if type[0] == "<" else type


def bits_of(scalar: str) -> int:
    """Return how many bits a number of a type has.

    Raises:
        DTypeError: it is no type of numbers, but of addresses.
    """
    if scalar not in FLOAT_BITS and not scalar[1:].isdigit():
        raise DTypeError(f"{scalar} is no type of numbers")
    return FLOAT_BITS[scalar] if scalar in FLOAT_BITS else int(scalar[1:])


def short(type: str) -> str:
    """Return what names of intrinsics call a type, such as f32, and v16f32 for <16 x float>."""
    scalar = scalar_of(type)
    name = SHORT.get(scalar, scalar)
    return name if scalar == type else f"v{type[1:].split(' ')[0]}{name}"


def _aligned(align: int | None) -> str:
    return "" if align is None else f", align {align}"
