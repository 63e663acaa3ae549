"""The words of an argument block by name: said once, for the launch that fills them in and the code that reads them."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.codegen.block import Scratch, Slot, Word, float_word
from tazza.codegen.term import Lines, Term
from tazza.errors import SchemaError


class Fields:
    """The first words of a block, each by its name.

    They are int64 numbers, then those that the kernel keeps there itself (0 at first), float64 numbers, and addresses:
    if nothing else is said, that of the blob of this letter, and for `scratch` that of the scratch memory. Behind a
    colon stands what LLVM calls the elements there: `Y:i64`; they are float if it does not.

    >>> FIELDS = Fields("threads size", own="status", doubles="scale", addresses="X Y")
    >>> FIELDS.words(threads=1, size=7, scale=0.5, Y=128)
    (1, 7, 0, 4602678819172646912, Slot(letter='X', index=None), 128)
    >>> len(FIELDS)
    6
    """

    def __init__(
        self, numbers: str = "", *, own: str = "", doubles: str = "", addresses: str = "", after: Fields | None = None
    ) -> None:
        """Name them, with spaces between; `after` others, which a kernel shares with its like.

        Raises:
            SchemaError: two have one name, or one has a name that stands for something else where they are read.
        """
        given: list[tuple[str, str]] = [] if after is None else list(after.types.items())
        pointers = [name.partition(":") for name in addresses.split()]
        letters = [name for name, _, _ in pointers]
        for names, type in ((numbers, "i64"), (own, "i64"), (doubles, "double"), (" ".join(letters), "ptr")):
            given += [(name, type) for name in names.split()]
        before = {} if after is None else after.elements
        self.elements: dict[str, str] = before | {name: kind for name, _, kind in pointers if kind}
        """What lies at an address, where it is no float."""
        self.types: dict[str, str] = dict(given)
        """LLVM's type of each, in the order of the block."""
        if len(self.types) < len(given):
            raise SchemaError(f"words of a block with one name: {', '.join(name for name, _ in given)}")
        own_names = [name for name in self.types if hasattr(Reader, name) or name.startswith("_")]
        if own_names:
            raise SchemaError(f"what reads a block has {', '.join(own_names)} itself: no names for its words")
        self._places = {name: place for place, name in enumerate(self.types)}
        self._usual: dict[str, Word | float] = {
            **({} if after is None else after._usual),
            **dict.fromkeys(own.split(), 0),
            **{name: Scratch() if name == "scratch" else Slot(name) for name in letters},
        }

    def __len__(self) -> int:
        """Return how many there are: the word behind them, where blobs that are variadic may follow."""
        return len(self.types)

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self.types)

    def words(self, **given: Word | float) -> tuple[Word, ...]:
        """Return the words of a launch.

        Raises:
            SchemaError: one is missing, or has no place.
        """
        found = self._usual | given
        if found.keys() != self.types.keys():
            wrong = sorted(found.keys() ^ self.types.keys())
            raise SchemaError(f"words of the block {', '.join(self)}: {', '.join(wrong)} on one side alone")
        return tuple(_word(found[name], type) for name, type in self.types.items())

    def lazily(self, lines: Lines, first: int = 0, block: Term | None = None) -> Reader:
        """Return what reads them, from that word of the block on."""
        return Reader(self, first, lines.block_start if block is None else block)

    def loaded(self, lines: Lines, first: int = 0) -> Reader:
        """Return the same, which has read all of them: before loops that need them.

        Addresses come first: what LLVM keeps in registers in long kernels hangs on the order.
        """
        at = self.lazily(lines, first)
        vars(at).update({name: at[name] for name in sorted(self, key=lambda name: self.types[name] != "ptr")})
        return at

    def place(self, name: str) -> int:
        """Return which word of the block it is.

        Raises:
            SchemaError: there is none of that name.
        """
        if name not in self._places:
            raise SchemaError(f"no word {name!r} in a block of {', '.join(self)}")
        return self._places[name]


def _word(value: Word | float, type: str) -> Word:
    if type == "double":
        assert isinstance(value, (int, float)), "an address is no number"
        return float_word(float(value))
    assert not isinstance(value, float), "a whole number"
    return value


class Reader:
    """Words of a block as attributes: `at.size` loads it where the code that asks stands."""

    def __init__(self, fields: Fields, first: int, block: Term) -> None:
        """Read nothing yet."""
        self._fields, self._first, self._block = fields, first, block

    def __getattr__(self, name: str) -> Term:
        """Load a word."""
        word = self.address(name).of(self._fields.types[name]).load()
        return word.of(self._fields.elements.get(name, "float"))

    def __getitem__(self, name: str) -> Term:
        """Return a word whose name is put together."""
        return getattr(self, name)

    def address(self, name: str) -> Term:
        """Return where the word itself lies."""
        return self._block.of("i64").at(self._first + self._fields.place(name))

    def tail(self) -> Unnamed:
        """Return what reads the words behind them."""
        return Unnamed(self._block.lines, self._first + len(self._fields))


class Unnamed:
    """Words one after the other, for those without names: as many as a kernel has operands, or dimensions."""

    def __init__(self, lines: Lines, first: int) -> None:
        """Begin with that word of the block."""
        self._lines, self._next = lines, first

    def take_place(self) -> Term:
        """Return where the next word itself lies, and go on."""
        self._next += 1
        return self._lines.block_start.at(self._next - 1)

    def take(self, count: int, type: str = "i64") -> list[Term]:
        """Load the next words, as what LLVM calls so; addresses are those of floats."""
        return [self.take_place().of(type).load().of("float" if type == "ptr" else "") for _ in range(count)]
