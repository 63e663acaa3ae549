"""Conditional random fields over the tags of a sentence: the loss of a path, and predictions that follow the best one.

Letters: T words, K classes. Two further tags stand for the begin and the end of a sentence, so that the scores P are
(T + 2, K + 2), and the transitions A (K + 2, K + 2): A[i, j] is what tag j behind tag i adds. Of a path s

    score(s) = sum of P[t, s[t]] + sum of A[s[t], s[t + 1]]
    loss = log(sum over all paths of exp(score)) - score(labels)

The sum over all paths is a recurrent net, a step of which takes the logarithm over the tag before. It works on one
sentence. Source: Lafferty, McCallum, Pereira: Conditional random fields, 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import brew, core, model_helper, recurrent
from tazza.operator import run_op

LOW = -1000.0
"""The score of a tag that cannot be."""
SCOPE = "crf_net"


def s(name: str) -> str:
    """Return a name below the scope of the recurrent net."""
    return f"{SCOPE}/{name}"


class CRFWithLoss:
    """The transitions between the tags of a model, and what is made of them."""

    def __init__(self, model: Any, num_classes: int, transitions_blob: Any = None) -> None:
        """Take the transitions, a parameter of the model; by default a new one is drawn from [-1, 1]."""
        self.model = model
        self.num_classes = num_classes
        self.num_classes_padded = num_classes + 2
        if not transitions_blob:
            side = self.num_classes_padded
            name = core.ScopedBlobReference("crf_transitions")
            transitions_blob = model.param_init_net.UniformFill([], [name], shape=[side, side], min=-1.0, max=1.0)
        self.transitions = transitions_blob
        model.params.append(self.transitions)

    def crf_loss(self, predictions: Any, labels: Any, seq_lengths: Any = None) -> Any:
        """Add the loss of predictions (T, K) for labels (T)."""
        del seq_lengths  # there is one sentence
        net, init_net = self.model.net, self.model.param_init_net
        # The transitions may be updated between the operators that read them.
        transitions = net.Copy(self.transitions, core.ScopedBlobReference("transitions_snapshot"))
        unary = self._score_of_tags(predictions, labels)
        predictions = self.pad_predictions(predictions, init_net, net, self.num_classes)
        labels = self.pad_labels(labels, init_net, net, self.num_classes)
        binary = self._score_of_transitions(labels, transitions)
        path = net.Add([binary, unary], core.ScopedBlobReference("path_total"))
        first = init_net.ConstantFill([], shape=[1], value=0)
        initial = net.Gather([predictions, first], core.ScopedBlobReference("rnn_initial"), dense_gradient=True)
        words, _ = net.RemovePadding([predictions], padding_width=1, end_padding_width=0, outputs=2)
        words = net.ExpandDims([words], core.ScopedBlobReference("rnn_input_data"), dims=[1])
        # The gradient of a recurrent net needs a blob that nothing else reads.
        own = net.Copy(transitions, core.ScopedBlobReference("transitions_copy"))
        every = self._score_of_all_paths(words, initial, own)
        return net.Sub([every, path], core.ScopedBlobReference("crf_loss"))

    def _score_of_tags(self, predictions: Any, labels: Any) -> Any:
        """Add the sum of what the labels have in the predictions."""
        net = self.model.net
        labels = net.Cast([labels], to="int64")
        classes = self.model.param_init_net.ConstantFill([], shape=[1], value=self.num_classes)
        tags = net.FlattenToVec(net.OneHot([labels, classes]))
        scores = net.DotProduct([tags, net.FlattenToVec(predictions)])
        return net.ReduceFrontSum([scores])

    def _score_of_transitions(self, labels: Any, transitions: Any) -> Any:
        """Add the sum of the transitions from each label to the next, found in the matrix laid out in a row."""
        net = self.model.net
        after, _ = net.RemovePadding([labels], outputs=2, padding_width=1, end_padding_width=0)
        before, _ = net.RemovePadding([labels], outputs=2, padding_width=0, end_padding_width=1)
        width = net.ConstantFill([before], value=self.num_classes_padded)
        places = net.Add([net.Mul([before, width]), after])
        entries = net.Gather([net.FlattenToVec([transitions]), places], dense_gradient=True)
        return self.model.ReduceFrontSum(entries)

    def _score_of_all_paths(self, words: Any, initial: Any, transitions: Any) -> Any:
        """Add the logarithm of the sum over all paths."""
        net, side = self.model.net, self.num_classes_padded
        last = self.build_crf_net(words, initial, transitions)
        last, _ = net.Reshape([last], outputs=2, shape=(side,))
        one = self.model.param_init_net.ConstantFill([], value=0, shape=[side], dtype=core.DataType.INT32)
        score, _ = net.Reshape(net.SortedSegmentRangeLogSumExp([last, one]), outputs=2, shape=())
        return score

    def build_crf_net(self, input_blob: Any, initial_state: Any, transitions: Any) -> Any:
        """Add the recurrent net over words (T, 1, K + 2) from a state (1, K + 2); returns its last state."""
        side = self.num_classes_padded
        step = model_helper.ModelHelper(name="crf_step", param_model=self.model)
        outside = core.ScopedBlobReference("input_t"), core.ScopedBlobReference("cell_t_prev"), transitions
        word, before, _ = step.net.AddExternalInputs(*outside)
        name = [s("zero_segment_id")]
        one = step.param_init_net.ConstantFill([], name, value=0, shape=[side], dtype=core.DataType.INT32)
        step.param_init_net.AddExternalOutput(one)  # what is tested without its model finds it so
        turned = brew.transpose(step, before, [s("prev_transpose")], axes=(0, 2, 1))
        columns = step.net.Tile(turned, [s("prev_tiled")], tiles=side, axis=2)
        rows = step.net.Tile(word, [s("input_t_tiled")], tiles=side, axis=1)
        both = step.net.Add([columns, rows], [s("input_with_prev")])
        ways = step.net.Add([both, transitions], [s("prev_with_transitions")], broadcast=1, use_grad_hack=1)
        shapes = [s("all_with_transitions_reshaped"), s("all_with_transitions_orig")]
        ways, _ = step.net.Reshape(ways, shapes, shape=(side, side))
        state = step.net.SortedSegmentRangeLogSumExp([ways, one], [s("cell_t")])
        step.net.AddExternalOutputs(state)
        return recurrent.recurrent_net(
            net=self.model.net,
            cell_net=step.net,
            inputs=[(word, input_blob)],
            initial_cell_inputs=[(before, initial_state)],
            links={before: state},
            scope=SCOPE,
            outputs_with_grads=(1,),
        )[1]

    def update_predictions(self, classes: Any) -> Any:
        """Add predictions that follow the best path, by a function in Python; `crf_predict` does it by operators."""

        def follow(inputs: Any, outputs: Any) -> None:
            P, A = inputs[0].data, inputs[1].data
            found = run_op("SwapBestPath", P, run_op("ViterbiPath", P, A))[1:-1, :-2]
            outputs[0].reshape(found.shape)
            outputs[0].data[...] = found

        init_net, net = self.model.param_init_net, self.model.net
        padded = self.pad_predictions(classes, init_net, net, self.num_classes)
        return net.Python(follow)([padded, self.transitions], core.ScopedBlobReference("post_crf_classes"))

    @staticmethod
    def pad_labels(labels: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """Add the tags of begin and end to labels."""
        begin, end = (init_net.ConstantFill([], shape=[1], value=num_classes + i) for i in range(2))
        return net.Concat([begin, net.Cast([labels], to="int64"), end], axis=0, outputs=2)[0]

    @staticmethod
    def pad_predictions(predictions: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """Add scores of begin and end to predictions (T, K): two columns that cannot be, and two rows that must."""
        width = num_classes + 2
        begin, end = np.full((2, 1, width), LOW, np.float32)
        begin[0, num_classes] = end[0, num_classes + 1] = 0
        begin = init_net.GivenTensorFill([], "b_scores", shape=[1, width], values=begin)
        end = init_net.GivenTensorFill([], "e_scores", shape=[1, width], values=end)
        first = net.ConstantFill([], shape=[1], value=0)
        words = net.Cast(net.Gather([net.Shape([predictions]), first]), to="int32")
        column = net.ExpandDims(net.ConstantFill([net.LengthsRangeFill(words)], value=LOW), dims=[1])
        wide, _ = net.Concat([predictions, column, column], outputs=2, axis=1)
        return net.Concat([begin, wide, end], outputs=2, axis=0)[0]
