"""Beam search as a recurrent net: each step keeps the best hypotheses, and what they came from.

Letters: B hypotheses, the beam; S steps of the encoder; T of the search; V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from caffe2.python import core
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

SEARCHED = ("scores_t", "tokens_t", "hypo_t", "attention_t")
"""States of the search itself, behind those of decoders."""


class BeamSearchForwardOnly:
    """A search over what decoders say of the next word.

    The caller adds one step of his decoders to `get_step_model`, from `get_previous_tokens` and `get_timestep`; then
    `apply` adds the search, which runs T steps.
    """

    class LinkConfig(NamedTuple):
        """A blob of a step, and the rows of a state that it lies on: `window` ones from the step's + `offset` on."""

        blob: Any
        offset: int
        window: int

    class StateConfig(NamedTuple):
        """A state: its initial value, and the links of what it is before a step, and after it."""

        initial_value: Any
        state_prev_link: Any
        state_link: Any

    def __init__(
        self,
        beam_size: int,
        model: Any,
        eos_token_id: int,
        go_token_id: int = 1,
        post_eos_penalty: float | None = None,
    ) -> None:
        """Begin a step.

        Args:
            beam_size: B.
            model: gets the search.
            eos_token_id: what ends a sentence.
            go_token_id: what all hypotheses begin with.
            post_eos_penalty: what is added to the score of each word behind an end; nothing if None.
        """
        self.beam_size = beam_size
        self.model = model
        self.step_model = Seq2SeqModelHelper(name="step_model", param_model=model)
        self.go_token_id = go_token_id
        self.eos_token_id = eos_token_id
        self.post_eos_penalty = post_eos_penalty
        net = self.step_model.net
        self.timestep, *before = net.AddExternalInput("timestep", *(f"{name}_prev" for name in SEARCHED))
        self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev, self.attention_t_prev = before
        tokens = net.Cast(self.tokens_t_prev, "tokens_t_prev_int32", to=core.DataType.INT32)
        self.tokens_t_prev_int32_flattened = net.Reshape([tokens], [tokens, "input_t_int32_old_shape"], shape=[1, -1])[
            0
        ]

    def get_step_model(self) -> Any:
        """Return the model of one step."""
        return self.step_model

    def get_previous_tokens(self) -> Any:
        """Return the blob of a step with the word before, int32 (1, B)."""
        return self.tokens_t_prev_int32_flattened

    def get_timestep(self) -> Any:
        """Return the blob of a step with its number."""
        return self.timestep

    def apply(
        self,
        inputs: Any,
        length: Any,
        log_probs: Any,
        attentions: Any,
        state_configs: Sequence[Any],
        data_dependencies: Sequence[Any],
        word_rewards: Any = None,
        possible_translation_tokens: Any = None,
        go_token_id: Any = None,
    ) -> tuple[Any, Any, Any, Any]:
        """Add the search.

        Args:
            inputs: int32 (S, 1), the sentence.
            length: int64 (1), T.
            log_probs: (B, V), what a step says of the next word.
            attentions: (B, S), what a step attends to.
            state_configs: for each state of decoders its initial value, a link to it before a step, and one to it
                after the step.
            data_dependencies: blobs that steps read.
            word_rewards: (V), what is added to the score of a word.
            possible_translation_tokens: int32, the words that columns of `log_probs` stand for; their numbers if None.
            go_token_id: a blob, what hypotheses begin with in place of the number.

        Returns:
            Words, int32, the hypotheses of the step before that they go on from, int32, and scores, (T + 1, B, 1); what
            was attended to, (T + 1, B, S).
        """
        step = _Step(self, log_probs)
        scores = step.scores(word_rewards, possible_translation_tokens)
        chosen = step.chosen(scores, attentions)
        states = [self._chosen(config, step.hypotheses) for config in state_configs]
        initial = self._initial(inputs, go_token_id)
        before = [self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev, self.attention_t_prev]
        states += [
            self.StateConfig(first, self.LinkConfig(previous, 0, 1), self.LinkConfig(blob, 1, 1))
            for first, previous, blob in zip(initial, before, chosen, strict=True)
        ]
        every = self._recurrent(length, states, data_dependencies)
        net, (all_scores, all_tokens, all_hypotheses, all_attentions) = self.model.net, every
        tokens = net.Cast(all_tokens, "output_token_beam_list", to=core.DataType.INT32)
        previous = net.Cast(all_hypotheses, "output_prev_index_beam_list", to=core.DataType.INT32)
        scores = net.Alias(all_scores, "output_score_beam_list")
        return tokens, previous, scores, net.Alias(all_attentions, "output_attention_weights_beam_list")

    def _chosen(self, config: Any, hypotheses: Any) -> Any:
        """Add what a state is for the hypotheses that were kept; return its configuration."""
        net, link = self.step_model.net, config.state_link
        rows = net.Reshape([link.blob], [link.blob, f"{link.blob}_old_shape"], shape=[self.beam_size, -1])[0]
        kept = net.Gather([rows, hypotheses], f"{link.blob}_chosen_per_hypo")
        return self.StateConfig(
            config.initial_value, config.state_prev_link, self.LinkConfig(kept, link.offset, link.window)
        )

    def _initial(self, inputs: Any, go_token_id: Any) -> list[Any]:
        """Add what the states of the search start from."""
        filled, net = self.model.param_init_net, self.model.net

        def first(name: str, value: float) -> Any:
            return filled.ConstantFill([], f"initial_{name}", shape=[1], value=value, dtype=core.DataType.FLOAT)

        scores = first("scores", 0.0)
        tokens = (
            first("tokens", float(self.go_token_id)) if go_token_id is None else net.Copy(go_token_id, "initial_tokens")
        )
        hypotheses = first("hypo", 0.0)
        flat = net.Reshape([inputs], ["encoder_inputs_flattened", "encoder_inputs_old_shape"], shape=[-1])[0]
        attention = net.ConstantFill(flat, "init_attention", value=0.0, dtype=core.DataType.FLOAT)
        return [scores, tokens, hypotheses, attention]

    def _recurrent(self, length: Any, states: Sequence[Any], data_dependencies: Sequence[Any]) -> list[Any]:
        """Add the operator that runs steps; return all values of the states of the search."""
        net = self.model.net
        rows = net.ConstantFill(
            length,
            "beam_search_fake_input",
            input_as_shape=True,
            extra_shape=[self.beam_size, 1],
            value=0.0,
            dtype=core.DataType.FLOAT,
        )
        parameters = list(map(str, self.model.params))
        inputs = [str(rows), *parameters, *(str(state.initial_value) for state in states)]
        links = [
            (str(link.blob), f"{state.state_prev_link.blob}_states", link.offset, link.window)
            for state in states
            for link in (state.state_prev_link, state.state_link)
        ]
        internal, external, offsets, windows = zip(*links, strict=True)
        searched = states[-len(SEARCHED) :]
        outputs = [f"{state.state_link.blob}_all" for state in searched]
        results = net.RecurrentNetwork(
            [*map(core.BlobReference, inputs), *data_dependencies],
            [*map(core.BlobReference, outputs), "step_workspaces"],
            param=list(range(1, len(parameters) + 1)),
            alias_src=[f"{state.state_prev_link.blob}_states" for state in searched],
            alias_dst=outputs,
            alias_offset=[0] * len(SEARCHED),
            recurrent_states=[f"{state.state_prev_link.blob}_states" for state in states],
            initial_recurrent_state_ids=[inputs.index(str(state.initial_value)) for state in states],
            link_internal=list(internal),
            link_external=list(external),
            link_offset=list(offsets),
            link_window=list(windows),
            backward_link_internal=[],
            backward_link_external=[],
            backward_link_offset=[],
            step_net=self.step_model.net.Proto(),
            timestep=str(self.timestep),
            outputs_with_grads=[],
            enable_rnn_executor=1,
            rnn_executor_debug=0,
        )
        return list(results[:-1])


class _Step:
    """What a search adds to a step behind the decoders."""

    def __init__(self, search: BeamSearchForwardOnly, log_probs: Any) -> None:
        """Add what tells the first step from others."""
        self.search = search
        self.net, self.filled = search.step_model.net, search.model.param_init_net
        self.zero = self._number("ZERO", 0)
        self.is_first = self.net.EQ([self.zero, search.timestep], "on_initial_step")
        penalty = search.post_eos_penalty
        self.log_probs = log_probs if penalty is None else self._penalized(log_probs, penalty)
        self.tokens: Any = None
        self.hypotheses: Any = None

    def _number(self, name: str, value: int, shape: Sequence[int] = (1,)) -> Any:
        """Add a constant, int32 (1), to the net of parameters."""
        return self.filled.ConstantFill([], name, shape=list(shape), value=value, dtype=core.DataType.INT32)

    def _reshaped(self, blob: Any, name: Any, old_shape: str, shape: list[int]) -> Any:
        return self.net.Reshape([blob], [name, old_shape], shape=shape)[0]

    def _penalized(self, log_probs: Any, penalty: float) -> Any:
        """Add a penalty to words of hypotheses that had ended; in the first step none has."""
        net, search, real = self.net, self.search, core.DataType.FLOAT
        eos = self._number("eos_token", search.eos_token_id, [search.beam_size])
        after = self.filled.ConstantFill([], "finished_penalty", shape=[1], value=float(penalty), dtype=real)
        none = self.filled.ConstantFill([], "ZERO_FLOAT", shape=[1], value=0.0, dtype=real)
        penalty_blob = net.Conditional([self.is_first, none, after], "possible_finished_penalty")
        flat = net.FlattenToVec(search.tokens_t_prev, "tokens_t_flat")
        tokens = net.Cast(flat, "tokens_t_flat_int", to=core.DataType.INT32)
        ended = net.EQ([tokens, eos], "predecessor_is_eos")
        ended = net.Cast(ended, "predecessor_is_eos_float", to=real)
        added = net.Mul([ended, penalty_blob], "predecessor_is_eos_penalty", broadcast=1)
        return net.Add([log_probs, added], "log_probs_penalized", broadcast=1, axis=0)

    def scores(self, word_rewards: Any, possible_translation_tokens: Any) -> Any:
        """Add the scores of the best B words of each hypothesis, (1, B B); in the first step of one alone, (1, B)."""
        net, size = self.net, self.search.beam_size
        best, self.tokens = net.TopK(self.log_probs, ["best_scores_per_hypo", "best_tokens_per_hypo_indices"], k=size)
        if possible_translation_tokens is not None:
            self.tokens = net.Gather([possible_translation_tokens, self.tokens], "best_tokens_per_hypo")
        before = self._reshaped(self.search.scores_t_prev, "scores_t_prev_squeezed", "scores_t_prev_old_shape", [size])
        scores = net.Add([best, before], "output_scores", broadcast=1, axis=0)
        if word_rewards is not None:
            rewards = net.Gather([word_rewards, self.tokens], "word_rewards_for_best_tokens_per_hypo")
            scores = net.Add([scores, rewards], scores)
        flat = self._reshaped(scores, scores, "output_scores_old_shape", [-1])
        minus_one = self.filled.ConstantFill([], "MINUS_ONE_INT32", value=-1, shape=[1], dtype=core.DataType.INT32)
        self.beam = self._number("beam_size", size)
        end = net.Conditional([self.is_first, self.beam, minus_one], "slice_end")
        kept = net.Slice([flat, self.zero, end], "output_scores_flattened_slice")
        return self._reshaped(kept, kept, "output_scores_flattened_slice_old_shape", [1, -1])

    def chosen(self, scores: Any, attentions: Any) -> list[Any]:
        """Add the best B hypotheses: scores, words, hypotheses before, and what was attended to."""
        net, size, real = self.net, self.search.beam_size, core.DataType.FLOAT
        best_scores, best = net.TopK(scores, ["scores_t", "best_indices"], k=size)
        beam = self.filled.Cast(self.beam, "BEAM_SIZE_64", to=core.DataType.INT64)
        self.hypotheses = net.Div([best, beam], "hypo_t_int32", broadcast=1)
        hypotheses = net.Cast(self.hypotheses, "hypo_t", to=real)
        attention = net.Gather([attentions, self.hypotheses], "attention_t")
        attention = self._reshaped(attention, attention, "attention_t_old_shape", [1, size, -1])
        flat = self._reshaped(self.tokens, "best_tokens_per_hypo_flatten", "best_tokens_per_hypo_old_shape", [-1])
        tokens = net.Cast(net.Gather([flat, best], "tokens_t_int32"), "tokens_t", to=real)
        return [best_scores, tokens, hypotheses, attention]
