"""Trees of words for a hierarchical softmax, and the paths to their leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from caffe2.proto.hsm_pb2 import HierarchyProto, NodeProto, PathNodeProto, PathProto, TreeProto


def create_node_with_words(words: Iterable[int], name: str = "node") -> NodeProto:
    """Return a node with words below it."""
    return NodeProto(name=name, word_ids=words)


def create_node_with_nodes(nodes: Iterable[NodeProto], name: str = "node") -> NodeProto:
    """Return a node with nodes below it."""
    return NodeProto(name=name, children=nodes)


def create_hierarchy(tree_proto: TreeProto) -> HierarchyProto:
    """Return the path to each word: of each node above it its first row, its width, and which child is next.

    Rows of the weights are counted over all nodes, from the root down; each node is told its own.
    """
    made = HierarchyProto()
    made.paths.extend(_paths(tree_proto.root_node, (), made))
    return made


def _paths(node: NodeProto, above: tuple[PathNodeProto, ...], counted: HierarchyProto) -> Iterator[PathProto]:
    node.offset = counted.size
    width = len(node.children) + len(node.word_ids)
    counted.size += width

    def to(child: int) -> tuple[PathNodeProto, ...]:
        return (*above, PathNodeProto(index=node.offset, length=width, target=child))

    for position, child in enumerate(node.children):
        yield from _paths(child, to(position), counted)
    for position, word in enumerate(node.word_ids, len(node.children)):
        yield PathProto(word_id=word, path_nodes=to(position))
