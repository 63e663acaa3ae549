"""Writing LLVM IR: the lines of one function, and vectors of every element type.

Values are the text by which IR names them, such as `%v12`. In registers float32, float16 and bfloat16 are float32
lanes, float64 is its own, integers have their width, and bool is a mask. All vectors of a kernel have one number of
lanes, so float64 beside float32 takes two registers. Half-precision values are rounded where they are cast or stored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from tazza.tensor import DataType


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

    def let(self, text: str) -> str:
        """Add an instruction and return its value."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

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

    def prefetch(self, pointer: str, nbytes: int, *, write: bool = False) -> None:
        """Ask for what lies `nbytes` behind a pointer, maybe to write it; no address is wrong."""
        self.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        at = self.let(f"getelementptr i8, ptr {pointer}, i64 {nbytes}")
        self.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 {int(write)}, i32 3, i32 1)")

    # -- vectors of any type, which is given as `<16 x i32>` -----------------------------------------------------------

    def shuffle(self, kind: str, order: Iterable[int], a: str, b: str = "poison") -> str:
        """Return lanes of two vectors in an order; those of the second are counted on."""
        lanes = [f"i32 {lane}" for lane in order]
        return self.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{', '.join(lanes)}>")

    def splat(self, kind: str, scalar: str) -> str:
        """Return a vector that is full of one scalar."""
        count, one = kind[1:-1].split(" x ")
        first = self.let(f"insertelement {kind} poison, {one} {scalar}, i32 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer")

    def halved(self, kind: str, value: str, join: Callable[[int, str, str], str], least: int = 1) -> str:
        """Join one half of the lanes with the other until `least` are left; `join` gets how many a half has."""
        count, one = int(kind[1:].split(" x ")[0]), kind.split(" x ")[1]
        while count > least:
            half, here = count // 2, f"<{count} x {one}"
            value = join(half, *(self.shuffle(here, range(start, start + half), value) for start in (0, half)))
            count = half
        return value

    def any_set(self, count: int, mask: str) -> str:
        """Return whether any lane of a mask is set."""
        bits = self.let(f"bitcast <{count} x i1> {mask} to i{count}")
        return self.let(f"icmp ne i{count} {bits}, 0")

    def load_lanes(self, kind: str, at: str, align: int, mask: str | None, default: str = "zeroinitializer") -> str:
        """Return the vector at an address, a multiple of `align`; lanes outside of the mask are `default`."""
        if mask is None:
            return self.let(f"load {kind}, ptr {at}, align {align}")
        name, masks = f"@llvm.masked.load.{_short(kind)}.p0", _mask_of(kind)
        self.declare(f"{kind} {name}(ptr, i32, {masks}, {kind})")
        return self.let(f"call {kind} {name}(ptr {at}, i32 {align}, {masks} {mask}, {kind} {default})")

    def store_lanes(self, kind: str, value: str, at: str, align: int, mask: str | None, hint: str = "") -> None:
        """Write the lanes of a mask to an address, a multiple of `align`."""
        if mask is None:
            self.do(f"store {kind} {value}, ptr {at}, align {align}{hint}")
            return
        name, masks = f"@llvm.masked.store.{_short(kind)}.p0", _mask_of(kind)
        self.declare(f"void {name}({kind}, ptr, i32, {masks})")
        self.do(f"call void {name}({kind} {value}, ptr {at}, i32 {align}, {masks} {mask})")

    def gather_lanes(self, kind: str, places: str, align: int, mask: str, default: str = "zeroinitializer") -> str:
        """Return what lies at a vector of addresses; lanes outside of the mask are `default`."""
        name, masks, pointers = f"@llvm.masked.gather.{_short(kind)}", _mask_of(kind), _mask_of(kind, "ptr")
        full = f"{name}.{_short(pointers)}"
        self.declare(f"{kind} {full}({pointers}, i32, {masks}, {kind})")
        operands = f"{pointers} {places}, i32 {align}, {masks} {mask}, {kind} {default}"
        return self.let(f"call {kind} {full}({operands})")

    def scatter_lanes(self, kind: str, value: str, places: str, align: int, mask: str) -> None:
        """Write the lanes of a mask to a vector of addresses."""
        name, masks, pointers = f"@llvm.masked.scatter.{_short(kind)}", _mask_of(kind), _mask_of(kind, "ptr")
        full = f"{name}.{_short(pointers)}"
        self.declare(f"void {full}({kind}, {pointers}, i32, {masks})")
        self.do(f"call void {full}({kind} {value}, {pointers} {places}, i32 {align}, {masks} {mask})")

    def intrinsic(self, kind: str, name: str, *operands: str | int) -> str:
        """Call an intrinsic whose operands and result have one type, a vector or not: fma, umax, smin."""
        full = f"@llvm.{name}.{_short(kind)}"
        self.declare(f"{kind} {full}({', '.join([kind] * len(operands))})")
        return self.let(f"call {kind} {full}({', '.join(f'{kind} {one}' for one in operands)})")

    def least(self, a: str | int, b: str | int) -> str:
        """The smaller one of two int64."""
        return self.intrinsic("i64", "smin", a, b)

    def most(self, a: str | int, b: str | int) -> str:
        """The larger one of two int64."""
        return self.intrinsic("i64", "smax", a, b)

    # -- words ---------------------------------------------------------------------------------------------------------

    def load_word(self, block: str, index: int) -> str:
        """Return word `index` of the int64 array at `block`."""
        at = self.let(f"getelementptr i64, ptr {block}, i64 {index}")
        return self.let(f"load i64, ptr {at}")

    def load_pointer(self, block: str, index: int) -> str:
        """Return word `index` of the array at `block`, an address."""
        at = self.let(f"getelementptr i64, ptr {block}, i64 {index}")
        return self.let(f"load ptr, ptr {at}")


KINDS = {
    DataType.FLOAT: "float",
    DataType.DOUBLE: "double",
    DataType.FLOAT16: "half",
    DataType.BFLOAT16: "i16",
    DataType.BOOL: "i8",
}
"""Element types that vectors of floats load and store, and what LLVM calls them in memory."""
MEMORY = KINDS | {
    DataType.INT8: "i8",
    DataType.UINT8: "i8",
    DataType.INT16: "i16",
    DataType.UINT16: "i16",
    DataType.INT32: "i32",
    DataType.INT64: "i64",
}
"""All element types, and what LLVM calls them in memory."""
UNSIGNED = frozenset({DataType.BOOL, DataType.UINT8, DataType.UINT16})
HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})

SHORT = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
"""LLVM's types, and what names of intrinsics call them; integers by their own name."""


def _short(kind: str) -> str:
    """Return what names of intrinsics call a type, such as f32, and v16f32 for <16 x float>."""
    if kind[0] != "<":
        return SHORT.get(kind, kind)
    count, one = kind[1:-1].split(" x ")
    return f"v{count}{SHORT.get(one, one)}"


def _mask_of(kind: str, one: str = "i1") -> str:
    """Return a vector type of as many lanes, by default that of masks."""
    return f"{kind.split(' x ')[0]} x {one}>"


class Vector:
    """Vectors of `count` lanes of an element type: what IR calls them, and instructions on them.

    Attributes:
        bits: width of a lane in registers.
        scalar, type: a lane in registers, and all of them.
        stored: all of them in memory.
        integer: as many integers, as wide as a lane.
        mask: as many truths.
        unsigned: whether integers of the type have no sign.
    """

    def __init__(self, lines: Lines, count: int, dtype: DataType = DataType.FLOAT) -> None:
        """Write into `lines`."""
        self.lines = lines
        self.count = count
        self.dtype = dtype
        self.unsigned = dtype in UNSIGNED
        self.bits = 1 if dtype is DataType.BOOL else max(8 * dtype.itemsize, 32 if dtype.is_float else 0)
        self.scalar = ("float" if self.bits == 32 else "double") if dtype.is_float else f"i{self.bits}"
        self.type = f"<{count} x {self.scalar}>"
        self.stored = f"<{count} x {MEMORY[dtype]}>"
        self.integer = f"<{count} x i{self.bits}>"
        self.mask = f"<{count} x i1>"
        self.all_set = "splat (i1 true)"

    def constant(self, value: float) -> str:
        """Return a vector of one value."""
        if not self.dtype.is_float:
            return self.whole(int(value))
        # LLVM writes float constants of any width as the bits of a double.
        rounded = struct.unpack("<f", struct.pack("<f", value))[0] if self.bits == 32 and abs(value) < 3.5e38 else value
        return f"splat ({self.scalar} 0x{struct.pack('>d', rounded).hex().upper()})"

    def whole(self, value: int) -> str:
        """Return a vector of one integer, as wide as a lane."""
        return f"splat (i{self.bits} {value})"

    def splat(self, scalar: str) -> str:
        """Return a vector of one scalar value."""
        return self.lines.splat(self.type, scalar)

    def full(self, value: str) -> str:
        """Return a vector of one integer, cut from an int64."""
        return self.splat(value if self.bits == 64 else self.lines.let(f"trunc i64 {value} to {self.scalar}"))

    def counted(self, first: str, step: str) -> str:
        """Return first, first + step, first + 2 step ... of integers, cut from two int64."""
        numbers = f"<{', '.join(f'{self.scalar} {lane}' for lane in range(self.count))}>"
        begin, apart = (self.full(one) for one in (first, step))
        return self.add(begin, self.mul(numbers, apart))

    # -- memory --------------------------------------------------------------------------------------------------------

    def load(
        self,
        pointer: str,
        i: str,
        mask: str | None,
        default: str = "zeroinitializer",
        *,
        dtype: DataType | None = None,
        ahead_bytes: int = 0,
    ) -> str:
        """Return elements i, i + 1 ... of an array; lanes outside of `mask` are `default`.

        Args:
            pointer: the array's address.
            i: int64.
            mask: which lanes are there; None for all.
            default: a vector.
            dtype: what floats are in memory, if that is another type.
            ahead_bytes: what lies so far behind whole vectors is asked for.
        """
        dtype = self.dtype if dtype is None else dtype
        kind, stored = MEMORY[dtype], f"<{self.count} x {MEMORY[dtype]}>"
        at = self.lines.let(f"getelementptr {kind}, ptr {pointer}, i64 {i}")
        if mask is None and ahead_bytes > 0:
            self.lines.prefetch(at, ahead_bytes)
        passed = default if stored == self.type else "zeroinitializer"
        wide = self.widened(dtype, self.lines.load_lanes(stored, at, dtype.itemsize, mask, passed))
        return wide if mask is None or passed == default else self.select(mask, wide, default)

    def load_one(self, pointer: str, *, dtype: DataType | None = None, align: int | None = None) -> str:
        """Return a vector that is full of the element at `pointer`, a multiple of `align`: of its size by default."""
        dtype = self.dtype if dtype is None else dtype
        kind = MEMORY[dtype]
        one = self.lines.let(f"load {kind}, ptr {pointer}, align {dtype.itemsize if align is None else align}")
        return self.widened(dtype, self.lines.splat(f"<{self.count} x {kind}>", one))

    def gather(self, pointer: str, i: str, step_bytes: str, mask: str | None) -> str:
        """Return elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), self.all_set if mask is None else mask
        return self.widened(self.dtype, self.lines.gather_lanes(self.stored, places, self.dtype.itemsize, chosen))

    def store(
        self,
        value: str,
        pointer: str,
        i: str,
        mask: str | None,
        *,
        dtype: DataType | None = None,
        streaming: bool = False,
    ) -> None:
        """Write elements i, i + 1 ..., as another type with `dtype`.

        With `streaming` whole vectors pass by the caches, and are aligned.
        """
        kind, own = self.dtype if dtype is None else dtype, dtype is None
        # Before or after the address is all the same, but texts are compared: kernels of each sort keep their order.
        value = value if own else self.narrowed(kind, value)
        at = self.lines.let(f"getelementptr {MEMORY[kind]}, ptr {pointer}, i64 {i}")
        value = self.narrowed(kind, value) if own else value
        streams = streaming and mask is None
        align = self.count * kind.itemsize if streams else kind.itemsize
        hint = ", !nontemporal !2" if streams else ""
        self.lines.store_lanes(f"<{self.count} x {MEMORY[kind]}>", value, at, align, mask, hint)

    def scatter(self, value: str, pointer: str, i: str, step_bytes: str, mask: str | None) -> None:
        """Write elements i, i + 1 ... that lie `step_bytes` apart."""
        places, chosen = self._places(pointer, i, step_bytes), self.all_set if mask is None else mask
        narrowed = self.narrowed(self.dtype, value)
        self.lines.scatter_lanes(self.stored, narrowed, places, self.dtype.itemsize, chosen)

    def _places(self, pointer: str, i: str, step_bytes: str) -> str:
        whole = Vector(self.lines, self.count, DataType.INT64)
        numbers = f"<{', '.join(f'i64 {lane}' for lane in range(self.count))}>"
        first, step = (whole.splat(one) for one in (i, step_bytes))
        offset = whole.mul(whole.add(first, numbers), step)
        return self.lines.let(f"getelementptr i8, ptr {pointer}, {whole.type} {offset}")

    # -- element types -------------------------------------------------------------------------------------------------

    def widened(self, dtype: DataType, value: str) -> str:
        """Return what was loaded as it is in registers: as floats, or, of the vector's own type, integers and masks."""
        lines, stored = self.lines, f"<{self.count} x {MEMORY[dtype]}>"
        if stored == self.type:
            return value
        if self.dtype is DataType.BOOL:
            return lines.let(f"icmp ne {stored} {value}, zeroinitializer")
        if dtype is DataType.BFLOAT16:  # the upper half of a float32
            single = Vector(lines, self.count)
            half = lines.let(f"zext {stored} {value} to {single.integer}")
            wide = single.of_bits(single.int_op("shl", half, single.whole(16)))
            return wide if self.bits == 32 else lines.let(f"fpext {single.type} {wide} to {self.type}")
        change = "uitofp" if dtype is DataType.BOOL else "fpext"
        return lines.let(f"{change} {stored} {value} to {self.type}")

    def narrowed(self, dtype: DataType, value: str) -> str:
        """Return what is in registers as it is stored: floats rounded to the nearest; the reverse of `widened`."""
        lines, stored = self.lines, f"<{self.count} x {MEMORY[dtype]}>"
        if stored == self.type:
            return value
        if dtype is DataType.BOOL:
            mask = value if self.dtype is DataType.BOOL else self.compare("une", value, self.constant(0.0))
            return lines.let(f"zext {self.mask} {mask} to {stored}")
        if dtype is DataType.BFLOAT16 and self.bits == 64:  # by way of float32, as NumPy does
            single = Vector(lines, self.count)
            return single.narrowed(dtype, lines.let(f"fptrunc {self.type} {value} to {single.type}"))
        if dtype is DataType.BFLOAT16:  # round to nearest, ties to even; NaN keeps its upper half and a set bit
            bits = self.bits_of(value)
            odd = self.int_op("and", self.int_op("lshr", bits, self.whole(16)), self.whole(1))
            rounded = self.int_op("add", self.int_op("add", bits, self.whole(0x7FFF)), odd)
            quiet = self.int_op("or", bits, self.whole(0x400000))
            strange = self.compare("uno", value, value)
            kept = lines.let(f"select {self.mask} {strange}, {self.integer} {quiet}, {self.integer} {rounded}")
            return lines.let(f"trunc {self.integer} {self.int_op('lshr', kept, self.whole(16))} to {stored}")
        return lines.let(f"fptrunc {self.type} {value} to {stored}")

    def converted(self, value: str, target: DataType, *, rounded: bool = False) -> str:
        """Return a value of this type in another; `rounded` first to what the type can hold."""
        if rounded and self.dtype in HALVES:
            value = self._rounded(value)
        other = Vector(self.lines, self.count, target)
        if target is self.dtype:
            return value
        if target is DataType.BOOL:
            if self.dtype.is_float:
                return self.compare("une", value, self.constant(0.0))
            return self.compare("ne", value, "zeroinitializer")
        if not target.is_float:
            return self._to_integer(value, other)
        if self.type != other.type:
            change = "fpext" if self.bits < other.bits else "fptrunc"
            if not self.dtype.is_float:
                change = "uitofp" if self.unsigned else "sitofp"
            value = self.lines.let(f"{change} {self.type} {value} to {other.type}")
        return other._rounded(value) if target in HALVES else value

    def _to_integer(self, value: str, other: Vector) -> str:
        if self.dtype.is_float:  # what does not fit is any number, but one and the same: as in NumPy
            middle = f"<{self.count} x {'i64' if other.bits == 64 else 'i32'}>"
            raw = self.lines.let(f"fptosi {self.type} {value} to {middle}")
            fixed = self.lines.let(f"freeze {middle} {raw}")
            return fixed if middle == other.type else self.lines.let(f"trunc {middle} {fixed} to {other.type}")
        if self.type == other.type:
            return value
        change = "trunc" if self.bits > other.bits else "zext" if self.unsigned else "sext"
        return self.lines.let(f"{change} {self.type} {value} to {other.type}")

    def _rounded(self, value: str) -> str:
        return self.widened(self.dtype, self.narrowed(self.dtype, value))

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def _two(self, name: str, a: str, b: str) -> str:
        return self.lines.let(f"{'f' if self.dtype.is_float else ''}{name} {self.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        """A + b."""
        return self._two("add", a, b)

    def sub(self, a: str, b: str) -> str:
        """A - b."""
        return self._two("sub", a, b)

    def mul(self, a: str, b: str) -> str:
        """A * b."""
        return self._two("mul", a, b)

    def div(self, a: str, b: str) -> str:
        """A / b, of floats."""
        return self._two("div", a, b)

    def neg(self, a: str) -> str:
        """-a."""
        return self.lines.let(f"fneg {self.type} {a}") if self.dtype.is_float else self.sub("zeroinitializer", a)

    def intrinsic(self, name: str, *operands: str) -> str:
        """Call an intrinsic whose operands and result are such vectors."""
        return self.lines.intrinsic(self.type, name, *operands)

    def fma(self, a: str, b: str, c: str) -> str:
        """A * b + c, rounded once where the processor can."""
        return self.intrinsic("fmuladd", a, b, c)

    def compare(self, predicate: str, a: str, b: str) -> str:
        """Return the mask of `fcmp predicate`, such as olt (false for NaN), or of `icmp predicate`, such as slt."""
        return self.lines.let(f"{'fcmp' if self.dtype.is_float else 'icmp'} {predicate} {self.type} {a}, {b}")

    def select(self, mask: str, yes: str, no: str) -> str:
        """Yes where the mask is set, else no."""
        return self.lines.let(f"select {self.mask} {mask}, {self.type} {yes}, {self.type} {no}")

    def both(self, a: str, b: str | None) -> str:
        """Return the mask of what is set in two; None is set everywhere."""
        return a if b is None else self.lines.let(f"and {self.mask} {a}, {b}")

    def ceiling(self, a: str, most: float) -> str:
        """min(a, most); NaN stays."""
        limit = self.constant(most)
        return self.select(self.compare("ogt", a, limit), limit, a)

    def floor_at(self, a: str, least: float) -> str:
        """max(a, least); NaN stays."""
        limit = self.constant(least)
        return self.select(self.compare("olt", a, limit), limit, a)

    def bits_of(self, a: str) -> str:
        """Return the bits as integers."""
        return self.lines.let(f"bitcast {self.type} {a} to {self.integer}")

    def of_bits(self, a: str) -> str:
        """Return floats of these bits."""
        return self.lines.let(f"bitcast {self.integer} {a} to {self.type}")

    def int_op(self, name: str, a: str, b: str) -> str:
        """An instruction on integers, such as add, shl, ashr, and."""
        return self.lines.let(f"{name} {self.integer} {a}, {b}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c0 + c1 x + c2 x^2 + ... by Horner's rule."""
        value = self.constant(coefficients[-1])
        for one in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.constant(one))
        return value

    def copy_sign(self, size: str, sign: str) -> str:
        """Size with the sign of `sign`."""
        return self.intrinsic("copysign", size, sign)

    def sum(self, a: str) -> str:
        """Return the sum of all lanes as a scalar, in the fixed order of halves."""
        return self._halved(a, lambda count, low, high: Vector(self.lines, count, self.dtype).add(low, high))

    def largest(self, a: str) -> str:
        """Return the largest lane as a scalar; which one it is among NaN is not told."""

        def join(count: int, low: str, high: str) -> str:
            half = Vector(self.lines, count, self.dtype)
            return half.select(half.compare("ogt", low, high), low, high)

        return self._halved(a, join)

    def _halved(self, value: str, join: Callable[[int, str, str], str]) -> str:
        """Join one half of the lanes with the other until one is left."""
        one = self.lines.halved(self.type, value, join)
        return self.lines.let(f"extractelement <1 x {self.scalar}> {one}, i32 0")

    def of_double(self, number: str) -> str:
        """Return a vector of one float64, rounded to the elements of this one."""
        return self.splat(number if self.bits == 64 else self.lines.let(f"fptrunc double {number} to float"))

    def each(self, function: str, *operands: str) -> str:
        """Call a function of libm, such as `powf`, lane by lane."""
        arity = len(operands)
        self.lines.declare(f"{self.scalar} @{function}({', '.join([self.scalar] * arity)})")
        result = "poison"
        for lane in range(self.count):
            scalars = [self.lines.let(f"extractelement {self.type} {one}, i32 {lane}") for one in operands]
            called = self.lines.let(
                f"call {self.scalar} @{function}({', '.join(f'{self.scalar} {one}' for one in scalars)})"
            )
            result = self.lines.let(f"insertelement {self.type} {result}, {self.scalar} {called}, i32 {lane}")
        return result

    def rare(self, mask: str, usual: str, function: str, *operands: str) -> str:
        """Return `usual`, but where the mask is set what libm's `function` gives; costs a branch when none is."""
        return self.rarely(mask, usual, lambda: self.each(function, *operands))

    def rarely(self, mask: str, usual: str, other: Callable[[], str]) -> str:
        """Return `usual`, but where the mask is set what `other` writes; costs a branch when it is nowhere."""
        lines = self.lines
        some = lines.any_set(self.count, mask)
        here, slow, join = lines.block, lines.fresh("rare"), lines.fresh("join")
        lines.do(f"br i1 {some}, label %{slow}, label %{join}, !prof !0")
        lines.label(slow)
        fixed = self.select(mask, other(), usual)
        ended = lines.block
        lines.do(f"br label %{join}")
        lines.label(join)
        return lines.let(f"phi {self.type} [ {usual}, %{here} ], [ {fixed}, %{ended} ]")
