"""Graphs: values, names, hazards."""

from __future__ import annotations

import pytest

from tazza.errors import NetError, SchemaError
from tazza.graph.graph import Graph, PassContext, Value, broken
from tazza.graph.naming import name_values, net_of
from tazza.graph.text import parse_net, print_net
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType, TensorSpec


def last(graph: Graph, name: str) -> Value:
    """Return the last value of a blob."""
    return graph.last[name]


def again(graph: Graph) -> NetDef:
    """Return the net of a graph."""
    return net_of(graph, name_values(graph))


def test_a_graph_gives_its_net_back() -> None:
    net = parse_net(
        "net: n\ntype: simple\nin: x, w, unused\nout: z, x\nt = Relu(x) @cuda:1 engine=CUDNN name=a\nt = Relu(t)\n"
        "w = Sum(w, t)\nt = Copy(w)\nz = Sum(t, w; odd=[1.0])"
    )
    net.arg.add(name="a", i=3)
    net.num_workers = 4
    net.device_option.random_seed = 5
    net.op[0].debug_info = "here"
    assert again(Graph.of(net)) == net


def test_values_are_versions() -> None:
    graph = Graph.of(parse_net("in: x", "out: z", "y = Relu(x)", "y = Relu(y)", "z = Sum(y, y, x)"))
    first, second, third = graph.nodes()
    assert [value.version for value in (*first.outputs, *second.outputs)] == [0, 1]
    assert first.outputs[0].readers == [second]
    assert second.outputs[0].readers == [third]
    assert third.outputs[0].kept
    assert graph.externals["x"].readers == [first, third]


def test_what_survives() -> None:
    def kept(text: str, keep: str = "") -> list[str]:
        graph = Graph.of(parse_net(text), PassContext(keep=frozenset(keep.split())))
        return sorted(repr(value) for node in graph.nodes() for value in node.outputs if value.kept)

    assert kept("in: x\nout: y\ny = Relu(x)\ny = Relu(y)\nq = Relu(x)") == ["y.1"]
    assert kept("in: x\nout: y\ny = Relu(x)\nq = Relu(x)", "q nothing") == ["q.0", "y.0"]
    assert kept("in: x, w\nout: y\ny = Relu(x)\nw = Sum(w, y)") == ["w.1", "y.0"]
    assert kept("y = Relu(x)\nq = Relu(y)") == ["q.0"]


def test_constants_are_not_written_and_follow_from_constants() -> None:
    net = parse_net(
        "in: x, w, u\nout: z\na = Relu(w)\nb = Sum(a, x)\nf = ConstantFill(; shape=[2])\n"
        "r = GaussianFill(; shape=[2])\n"
        "c = Relu(u)\nu = Sum(u, b)\nz = Relu(w)"
    )
    graph = Graph.of(net, PassContext(constants={"w", "u"}))
    constant = [value.name for node in graph.nodes() for value in node.outputs if value.constant]
    assert constant == ["a", "f"]


def test_specs_are_inferred_by_value() -> None:
    net = parse_net("in: x, w", "t = Relu(x)", "y = MatMul(t, w)", "t = Relu(y)")
    specs = {"x": TensorSpec((2, 3), DataType.FLOAT), "w": TensorSpec((3, 5), DataType.FLOAT)}
    graph = Graph.of(net, PassContext(specs=specs))
    assert [str(node.outputs[0].spec) for node in graph.nodes()] == ["float32[2, 3]", "float32[2, 5]", "float32[2, 5]"]


def test_a_value_is_available_until_its_fixed_name_is_written() -> None:
    graph = Graph.of(parse_net("in: w, x", "out: z", "t = Relu(x)", "w = Sum(w, t)", "t = Copy(w)", "z = Sum(t, w)"))
    w, t = graph.externals["w"], graph.nodes()[0].outputs[0]
    assert graph.available(w, (1,))
    assert not graph.available(w, (2,)), "w is overwritten at 1"
    assert graph.available(t, (3,)), "the other t can have another name"
    assert not graph.available(last(graph, "t"), (2,)), "it is made only then"


def test_two_values_of_one_free_name_that_live_together_get_two_names() -> None:
    graph = Graph.of(parse_net("in: x", "out: z", "t = Relu(x)", "u = Relu(t)", "t = Copy(x)", "z = Sum(t, u)"))
    first, second, _, last_node = graph.nodes()
    graph.redirect(second.outputs[0], first.outputs[0])
    graph.remove(second)
    assert last_node.inputs[1] is first.outputs[0]
    assert print_net(again(graph)).splitlines()[2:] == ["t = Relu(x)", "t_v1 = Copy(x)", "z = Sum(t_v1, t)"]


def test_a_hazard_between_fixed_names_is_an_error() -> None:
    graph = Graph.of(parse_net("in: w, g", "out: z", "c = Copy(w)", "w = Sum(w, g)", "z = Relu(c)"))
    copy = graph.nodes()[0]
    graph.remove(copy)
    graph.redirect(copy.outputs[0], graph.externals["w"])
    with pytest.raises(NetError, match=r"w\.0 is read after w\.1 has taken its name"):
        again(graph)


def test_a_missing_maker_is_found() -> None:
    graph = Graph.of(parse_net("in: x", "out: y", "t = Relu(x)", "y = Relu(t)"))
    assert broken(graph) is None
    graph.remove(graph.nodes()[0])
    assert "reads t.0, which nobody makes before it" in str(broken(graph))
    graph.remove(graph.nodes()[0])
    assert "blob 'y' must survive" in str(broken(graph))


def test_added_nodes_take_device_engine_and_arguments() -> None:
    graph = Graph.of(parse_net("in: x", "out: y", "y = LeakyRelu(x; alpha=0.5) @cuda:1 engine=CUDNN name=n"))
    (old,) = graph.nodes()
    graph.remove(old)
    made = graph.add("LeakyRelu", old.inputs, old.outputs, like=old, order=(0, 0), alpha=0.25)
    assert made.device == (1, 1, "")
    assert print_net(again(graph)).splitlines()[2] == "y = LeakyRelu(x; alpha=0.25) @cuda:1 engine=CUDNN name=n"


def test_the_device_of_the_net_counts() -> None:
    net = parse_net("in: x", "y = Relu(x)", "z = Relu(y) @cuda:0")
    net.device_option.device_type = 1
    first, second = Graph.of(net).nodes()
    assert first.device == second.device


def test_blobs_of_nested_nets_are_left_alone() -> None:
    inner = parse_net("in: t", "q = Relu(t)")
    net = parse_net("in: x", "out: z", "t = Relu(x)", "z = Relu(t)", "u = Relu(x)")
    net.op[2].arg.add(name="body").n.CopyFrom(inner)
    graph = Graph.of(net)
    assert graph.nodes()[0].outputs[0].kept
    assert not graph.nodes()[2].pure


def test_an_operator_that_is_not_legal_is_named() -> None:
    with pytest.raises(SchemaError, match=r"in operator 1 \(Relu\) of net 'n'"):
        Graph.of(NetDef(name="n", op=[*parse_net("y = Relu(x)").op, OperatorDef(type="Relu")]))
