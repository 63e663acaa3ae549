"""What an input is for: each schema says it of each letter; nobody guesses it from where an input stands."""

from __future__ import annotations

import enum


class Role(enum.Enum):
    """What an operator takes an input for.

    The role is that of a blob that comes from outside of the net: what the net makes itself is data, whoever reads it.
    Which inputs of a net are fed and which are kept, and what a plan computes once, follow from these
    (`graph/roles.py`). A blob that several operators read has a role for each of them.

    >>> from tazza.operator import find_schema
    >>> [spec.role.name for spec in find_schema("Conv").inputs]
    ['DATA', 'PARAMETER', 'PARAMETER']
    """

    DATA = "data"
    """What goes through the net: another one in each run. So is a condition, which no branch computes with."""
    PARAMETER = "parameter"
    """What is learned, or given once: weights, biases, tables, a rate. The same from run to run but for updates.

    It promises how often a blob changes that the net does not make, never that it does not: a plan keeps what it
    computes of one until somebody writes it, and takes one that changes between runs for data from then on. So numbers
    do not hang on it, nor does data parallelism, which goes by the parameters of the model; the time of a plan does,
    and which blobs of a file without any word about it are taken for its inputs (`interop/chosen_inputs.py`). The
    second operand of `Add` or `MatMul` has this role since saved nets have a bias or a matrix there, where it is none
    of the net's own results; who feeds it says so: `inputs=[...]`, or the argument `inputs` of a net.
    """
    INDEX = "index"
    """Integers that say where: rows, lengths of segments, labels as positions, the number of the branch that runs. They
    come with the data."""
    SHAPE = "shape"
    """What only says how large something is: its values as extents, or its own shape and nothing else of it."""
    STATE = "state"
    """What an operator keeps from run to run: running statistics, moments, counters, generators."""

    @property
    def comes_with_data(self) -> bool:
        """Whether such an input is thought to be another one in each run."""
        return self in (Role.DATA, Role.INDEX)
