"""Data parallelism: from nets that train on one rank to those that train on one of several.

    model = data_parallel(model, Membership(rank, 4, "MPI"))

Every rank has all parameters and its share of each batch. Gradients go around in buckets, in the order in which the
backward pass ends with them: a BeginAllreduce stands behind the last operator that adds to a bucket, its EndAllreduce
in front of the first that needs it, and what lies between them is computed meanwhile. Of a parameter with a gradient of
rows the rows of all ranks are joined. Sums are divided by the number of ranks, so that losses are means over the joint
batch, as they were. What normalizations keep, and numbers that are looked at, such as the loss, are means of all ranks
too: they go along with the last gradients, or in one bucket that is needed at the end of the step.

The init net makes the world, holds the nets of all ranks against each other, and gives all ranks the blobs of rank 0.
Readers deal their records out to the ranks. All of this is operators: a net can be stored, drawn, and run by any type.

Source: Li et al. 2020, arXiv 2006.15704, section 3.2 (buckets, overlap).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tazza.data_class import dataclass
from tazza.distributed.buckets import Exchanged, along, backward_span, gradients_of, in_buckets, statistics_of
from tazza.distributed.membership import Membership
from tazza.graph.inference import infer_blobs
from tazza.models.model import Model
from tazza.models.net import Net
from tazza.models.training import carried_blobs
from tazza.operator import Spec, find_schema, gradient_name, operator_def, touches
from tazza.ops.distributed.collective import NUMERIC
from tazza.ops.distributed.exchange import SENT
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.runtime.digest import digest_of
from tazza.tensor import DataType, TensorSpec

WORLD = "world_of_ranks"
"""The blob of the world, in both nets."""
BUCKET_BYTES = 25 * 2**20
"""Gradients that go around together: less costs time for each, more leaves less to compute meanwhile."""
ALONG_BYTES = 2**20
"""What is looked at, and statistics, go along with the last gradients up to here; more is better sent early."""
LOOKED_AT = ("loss", "accuracy")
"""Blobs of one number that people look at; each rank then has the mean of all."""
SEED_OF_RANK = 1_000_033
"""Seeds of operators are this far apart from rank to rank; a prime that seeds of trainings are not apart."""
ENDLESS = "endless"
DEALT = {"num_shards", "shard_id"}
"""Arguments of operators that make readers."""


@dataclass(frozen=True, slots=True)
class Exchanging:
    """How ranks exchange.

    Attributes:
        bucket_bytes: of gradients that go around together, at most, but for single ones that are larger.
        sent_as: float32, or bfloat16 or float16: half the bytes, each gradient rounded; sums are formed in float32.
        looked_at: blobs of float32 that the forward pass makes, and of which each rank shall have the mean.
    """

    bucket_bytes: int = BUCKET_BYTES
    sent_as: str = DataType.FLOAT.label
    looked_at: Collection[str] = LOOKED_AT


def data_parallel(model: Model, membership: Membership, exchanging: Exchanging | None = None) -> Model:
    """Let a model that trains do so on one of several ranks; its nets are changed, and it is returned.

    Args:
        model: has gradients and updates; its batches are shares of a joint one, of equal sizes on all ranks.
        membership: which rank this is.
        exchanging: how ranks exchange.

    Raises:
        NetError: the net does not train, or updates a parameter before the backward pass has ended.
    """
    init, net = parallel_nets(model.init_net.proto, model.net.proto, membership, exchanging)
    _replace(model.init_net, init)
    _replace(model.net, net)
    return model


def _replace(net: Net, proto: NetDef) -> None:
    del net.proto.op[:], net.proto.external_input[:]
    net.defines("")  # it then knows that all is to be read anew
    net.proto.CopyFrom(proto)


def parallel_nets(
    init_net: NetDef, train_net: NetDef, membership: Membership, exchanging: Exchanging | None = None
) -> tuple[NetDef, NetDef]:
    """Return init net and train net of a rank; see `data_parallel`. The nets that are given stay as they are."""
    chosen = Exchanging() if exchanging is None else exchanging
    init, net = NetDef(), NetDef()
    init.CopyFrom(init_net)
    net.CopyFrom(train_net)
    _deal_readers(init, net, membership)
    draw_apart(net, membership.rank)
    specs = infer_blobs([init], {})
    carried = [name for name in carried_blobs(net) if _travels(specs.get(name))]
    _begin_together(init, net, carried, membership)
    exchanged = in_buckets(gradients_of(net), _bytes_of_gradients(specs), chosen.bucket_bytes)
    kept = _kept(net, carried, chosen.looked_at)
    if kept is not None:
        sizes = {name: spec.nbytes for name, spec in specs.items() if isinstance(spec, TensorSpec) and spec.shape_known}
        small = chosen.sent_as == DataType.FLOAT.label and sum(sizes.get(name, 0) for name in kept.blobs) <= ALONG_BYTES
        exchanged = along(exchanged, kept, net) if small else [*exchanged, kept]
    net_with(net, exchanged, membership, chosen.sent_as)
    net.external_input.append(WORLD)
    return init, net


def _travels(spec: Spec | None) -> bool:
    return isinstance(spec, TensorSpec) and spec.dtype in NUMERIC


def _bytes_of_gradients(specs: Mapping[str, Spec | None]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, spec in specs.items():
        if isinstance(spec, TensorSpec) and spec.shape_known:
            found[gradient_name(name)] = spec.nbytes
    return found


# -- the init net ------------------------------------------------------------------------------------------------------


def _deal_readers(init: NetDef, net: NetDef, membership: Membership) -> None:
    """Let readers of the net give each rank every `size`-th record; those that give a part do so of their part."""
    read = {name for op in net.op for name in op.input}
    for op in init.op:
        schema = find_schema(op.type)
        if DEALT <= set(schema.args) and read.intersection(op.output):
            view = schema.view(op)
            parts, part = int(view.num_shards), int(view.shard_id)
            for name, value in (("num_shards", parts * membership.size), ("shard_id", part + parts * membership.rank)):
                _set(op, name, value)
            if parts == 1 and ENDLESS in schema.args:  # ranks together read what one would, in each round
                _set(op, ENDLESS, 1)


def draw_apart(net: NetDef, rank: int) -> None:
    """Let operators that draw, and have a seed, do so otherwise on each rank, in place: as those of one batch do."""
    for op in net.op:
        if op.device_option.HasField("random_seed"):
            op.device_option.random_seed = (op.device_option.random_seed + rank * SEED_OF_RANK) % 2**31


def _set(op: OperatorDef, name: str, value: int) -> None:
    found = next((one for one in op.arg if one.name == name), None)
    (op.arg.add(name=name) if found is None else found).i = value


def _begin_together(init: NetDef, net: NetDef, carried: Sequence[str], membership: Membership) -> None:
    digest = digest_of(_identity(net).encode()).hex()
    create = operator_def(
        "CreateCommonWorld",
        [],
        [WORLD],
        name=membership.name,
        engine=membership.engine,
        size=membership.size,
        rank=membership.rank,
        timeout_ms=round(membership.timeout_s * 1000),
    )
    init.op.append(create)
    init.op.append(operator_def("AllSame", [WORLD], [], text=digest, what="net"))
    init.op.extend(operator_def("Broadcast", [WORLD, name], [name], root=0) for name in carried)


def _identity(net: NetDef) -> str:
    """Return a text that is the same for nets that compute the same, whatever they are called and drawn from."""
    lines = [net.type]
    for op in net.op:
        plain = OperatorDef()
        plain.CopyFrom(op)
        plain.device_option.ClearField("random_seed")
        lines.append(plain.SerializeToString(deterministic=True).hex())
    return "\n".join(lines)


# -- the train net -----------------------------------------------------------------------------------------------------


def _kept(net: NetDef, carried: Sequence[str], looked_at: Collection[str]) -> Exchanged | None:
    """Return what is needed at the end of a step; None where there is nothing."""
    forward = range(backward_span(net).start)
    written = {name: position for position in forward for name in touches(net.op[position]).writes}
    names = [*statistics_of(net, carried), *(name for name in looked_at if name in written)]
    if not names:
        return None
    return Exchanged(tuple(names), max(written[name] for name in names), len(net.op))


def net_with(net: NetDef, exchanged: Sequence[Exchanged], membership: Membership, sent_as: str) -> None:
    """Add what exchanges to a net, in place."""
    assert sent_as in SENT, "the operator's schema says so too"
    before: dict[int, list[OperatorDef]] = {}
    behind: dict[int, list[OperatorDef]] = {}
    renamed: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, one in enumerate(sorted(exchanged, key=lambda each: each.ready)):
        kept = one.needed == len(net.op)
        begin, end = _pair(one, f"{WORLD}_exchange_{number}", membership, DataType.FLOAT.label if kept else sent_as)
        for op in (begin, end):
            op.device_option.CopyFrom(_place(net.op[one.ready]))
        behind.setdefault(one.ready, []).append(begin)
        before.setdefault(one.needed, []).append(end)
        if one.rows:
            renamed[one.blobs] = tuple(end.output)
    ops = list(net.op)
    for (indices, rows), (all_indices, all_rows) in renamed.items():
        for op in ops[backward_span(net).stop :]:
            if rows in op.input:
                op.input[:] = [{indices: all_indices, rows: all_rows}.get(name, name) for name in op.input]
    made: list[OperatorDef] = []
    for position, op in enumerate(ops):
        made += [*before.get(position, ()), op, *behind.get(position, ())]
    made += before.get(len(ops), [])
    copied = NetDef(op=made)
    del net.op[:]
    net.op.extend(copied.op)


def _place(op: OperatorDef) -> DeviceOption:
    option = DeviceOption()
    option.CopyFrom(op.device_option)
    option.ClearField("random_seed")
    return option


def _pair(one: Exchanged, name: str, membership: Membership, sent_as: str) -> tuple[OperatorDef, OperatorDef]:
    """Return what begins and what ends an exchange."""
    scale = 1.0 / membership.size
    begun = [name, WORLD]
    if one.rows:
        indices, rows = one.blobs
        joined = [f"{rows}_indices_of_all", f"{rows}_of_all"]
        return (
            operator_def("BeginAllgatherRows", [WORLD, indices, rows], begun),
            operator_def("EndAllgatherRows", [name, indices, rows], joined, scale=scale),
        )
    return (
        operator_def("BeginAllreduce", [WORLD, *one.blobs], begun, sent_as=sent_as),
        operator_def("EndAllreduce", [name, *one.blobs], list(one.blobs), scale=scale),
    )
