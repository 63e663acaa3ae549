"""Where each row of `reference/behaviours.md` is shown by tazza's own names: all are, or it is said what is not.

Under the old names each numbered row runs as it is written there, in `caffe2/test_behaviour_rows.py`. Behind them the
table has facts without a reproduction, by their subjects.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

TABLE = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[2] / "shared")) / "reference" / "behaviours.md"


class Row(NamedTuple):
    """Where a row is shown: tests of `HERE` by name, others as `file::name`; and which parts of it are not."""

    shown: str
    left_out: str = ""


HERE = "test_behaviours.py"

ROWS = {
    1: Row("test_row_1_names_and_scopes models/test_net.py::test_nothing_of_a_scope_is_cleaned"),
    2: Row(
        "test_row_2_gradients_added_inside_a_scope"
        " models/test_net.py::test_gradients_in_a_scope_as_behaviours_row_2_has_them"
        " graph/test_backward.py::test_the_start_gradient_takes_the_scope"
    ),
    3: Row("test_row_3_net_names_are_unique models/test_net.py::test_net_names_are_unique_as_behaviours_row_3_has_it"),
    4: Row(
        "test_row_4_external_inputs_are_inferred"
        " models/test_net.py::test_external_inputs_are_inferred_as_behaviours_row_4_has_it"
    ),
    5: Row(
        "nets/test_simple.py::test_inputs_must_exist nets/test_simple.py::test_outputs_are_made_at_once"
        " nets/test_simple.py::test_external_inputs_are_checked_when_there_are_some"
    ),
    6: Row(
        "operator/test_definition.py::test_the_type_of_a_value_selects_the_field"
        " operator/test_definition.py::test_none_is_left_out"
        " operator/test_definition.py::test_mixed_lists_and_other_types_are_refused"
        " operator/test_definition.py::test_an_operator_reads_exactly_one_field"
    ),
    7: Row(
        "nets/test_simple.py::test_what_has_no_effect_is_said_once_per_net"
        " nets/test_simple.py::test_default_is_the_order_of_the_device"
        " operator/test_format_words.py::test_arguments_of_builders_are_reported_for_no_operator"
    ),
    8: Row(
        "test_workspace.py::test_feed_keeps_dtype_and_shape test_workspace.py::test_feed_refuses_numbers_and_lists"
        " test_workspace.py::test_feed_refuses_other_dtypes"
        " test_workspace.py::test_feed_copies_also_what_is_not_contiguous"
    ),
    9: Row(
        "test_workspace.py::test_fetch_gives_a_fresh_copy test_workspace.py::test_fetch_of_what_is_no_number"
        " caffe2/test_wild.py::test_operators_are_called_on_blobs"
    ),
    10: Row("nets/test_simple.py::test_a_created_net_is_a_snapshot"),
    11: Row(
        "test_row_11_a_failing_net_may_be_run_again nets/test_simple.py::test_create_run_delete"
        " nets/test_simple.py::test_a_failing_net_runs_again"
    ),
    12: Row(
        "test_row_12_random_numbers_belong_to_the_operator nets/test_simple.py::test_the_net_has_a_device"
        " ops/fill/test_random_fill.py::test_without_a_seed_every_operator_differs"
    ),
    13: Row(
        "graph/test_backward.py::test_stop_gradient ops/shape/test_copy.py::test_copy"
        " ops/shape/test_copy.py::test_stop_gradient_cuts_the_path_through_it"
    ),
    14: Row(
        "graph/test_backward.py::test_names_when_gradients_are_accumulated"
        " graph/test_backward.py::test_sparse_gradients_are_concatenated",
        "the order that changes from process to process in Caffe2",
    ),
    15: Row(
        "graph/test_backward.py::test_gradients_that_are_passed_through"
        " graph/test_backward.py::test_in_place_is_fine_where_the_output_is_read"
        " graph/test_backward.py::test_an_overwritten_blob_that_is_needed"
        " graph/test_backward.py::test_dense_and_sparse_gradients_do_not_mix"
        " ops/math/test_sum.py::test_sum_passes_its_gradient_on"
        " graph/test_backward.py::test_sparse_gradients_are_concatenated"
        " graph/test_backward.py::test_given_gradients_are_added_whatever_they_are_called"
    ),
    16: Row(
        "test_row_16_is_test_is_mandatory ops/nn/test_dropout.py::test_dropout ops/nn/test_dropout.py::test_refused",
        "the mask without a value, see docs/differences.md",
    ),
    17: Row(
        "test_row_17_statistics_of_spatial_bn ops/nn/test_batch_norm.py::test_statistics_as_behaviours_row_17_has_them"
        " ops/nn/test_batch_norm.py::test_training_normalizes_and_moves_the_running_pair"
        " ops/nn/test_batch_norm.py::test_one_value_a_channel_makes_the_running_variance_nan"
    ),
    18: Row(
        "test_row_18_signs_of_updates test_row_18_what_sgd_emits ops/optimizer/test_adam.py::test_it_descends"
        " ops/optimizer/test_adagrad.py::test_cases"
    ),
    19: Row(
        "test_row_19_counter_and_learning_rate"
        " ops/optimizer/test_learning_rate.py::test_equal_to_caffe2_over_200_iterations"
        " ops/optimizer/test_learning_rate.py::test_every_policy_has_a_curve"
        " ops/optimizer/test_learning_rate.py::test_composite_counts_from_1_and_gives_parts_the_iteration_itself"
    ),
    20: Row("test_row_20_fc_flattens ops/nn/test_fc.py::test_shapes_of_fc"),
    21: Row(
        "test_row_21_output_size_and_padding_of_pooling ops/nn/test_pool.py::test_output_size"
        " ops/nn/test_pool.py::test_caffe_drops_a_window_that_would_begin_in_the_padding"
        " ops/nn/test_pool.py::test_refused"
    ),
    22: Row(
        "ops/nn/test_conv.py::test_kernel_stride_and_pad_arguments ops/nn/test_conv.py::test_conv"
        " ops/nn/test_conv.py::test_half_pairs_have_no_effect_in_loaded_nets"
    ),
    23: Row("test_row_23_fillers ops/fill/test_random_fill.py::test_scales_and_ranges"),
    24: Row(
        "test_row_24_labels_losses_and_empty_batches ops/loss/test_cross_entropy.py::test_tiny_probabilities"
        " ops/loss/test_accuracy.py::test_ties ops/nn/test_softmax.py::test_images_are_normalised_as_a_whole"
    ),
    25: Row(
        "test_row_25_in_place_rules ops/math/test_sum.py::test_only_the_first_input_is_overwritten"
        " ops/nn/test_softmax.py::test_never_in_place"
        " operator/test_operator.py::test_an_output_in_place_keeps_dtype_and_number_of_elements"
        " ops/nn/test_dropout.py::test_in_place_and_by_seed ops/shape/test_reshape.py::test_in_place"
        " ops/math/test_arithmetic.py::test_a_blob_may_meet_itself_in_place"
    ),
    26: Row(
        "test_row_26_broadcasting ops/math/test_arithmetic.py::test_arithmetic"
        " ops/math/test_arithmetic.py::test_refused"
    ),
    27: Row("test_row_27_shapes_of_helper_outputs ops/reduce/test_arg_max.py::test_arg_max"),
    28: Row("ops/nn/test_conv.py::test_emitted_gradients ops/nn/test_conv.py::test_forms_of_the_gradient"),
    29: Row("test_row_29_shared_buffer", "the two blobs, with engines that need none"),
    30: Row(
        "test_row_30_device_options models/test_net.py::test_devices_as_behaviours_row_30_has_them"
        " device/test_device.py::test_scopes_replace_each_other_but_for_the_node"
    ),
    31: Row(
        "test_workspace.py::test_a_child_sees_and_writes_the_blobs_of_its_parent"
        " test_workspace.py::test_named_workspaces test_workspace.py::test_reset_empties_but_keeps"
    ),
    32: Row(
        "test_row_32_serialized_form tensor/test_serialization.py::test_bytes_are_those_of_caffe2"
        " tensor/test_tensor_proto.py::test_fields ops/data/test_checkpoint.py::test_keys"
        " ops/data/test_checkpoint.py::test_chunks_come_in_any_order"
    ),
    33: Row(
        "test_row_33_net_types test_row_33_types_have_the_executor_of_async_scheduling"
        " test_facts_flag_that_replaces_net_types nets/test_net_types.py::test_types_that_mean_simple"
        " nets/test_net_types.py::test_the_flag_replaces_types nets/test_net_types.py::test_half_a_pair_is_refused"
        " nets/test_simple_refcount.py::test_what_is_emptied"
        " nets/test_simple.py::test_unknown_type_proposes_known_ones",
        "`plan` is a type here; a parameter that a net updates is not emptied, see docs/differences.md",
    ),
    34: Row(
        "test_procedure.py::test_a_step_runs_once_or_as_often_as_it_says"
        " test_procedure.py::test_the_blob_is_looked_at_behind_each_net"
        " test_procedure.py::test_steps_run_side_by_side_and_the_first_error_ends_all"
        " test_procedure.py::test_nets_that_were_there_are_replaced_once"
    ),
    35: Row(
        "ops/control/test_python_function.py::test_what_they_raise_keeps_its_type"
        " ops/control/test_python_function.py::test_what_functions_see"
    ),
    36: Row("ops/shape/test_split.py::test_a_part_that_is_not_used_has_a_gradient_of_zeros", "the wrong shape"),
    37: Row(
        "ops/data/test_db.py::test_batches_wrap_around ops/data/test_db.py::test_the_reader_is_no_array"
        " ops/data/test_db.py::test_batch_size_0_gives_one_record_without_a_batch_dimension"
    ),
    38: Row(
        "test_row_38_how_random_numbers_are_drawn ops/fill/test_random_fill.py::test_equal_to_caffe2_to_the_last_bit"
        " device/test_generator.py::test_maps_of_the_twister operator/test_golden.py::test_outputs"
    ),
}
"""Every row of the table that has a reproduction."""

FACTS = {
    "learning-rate policies (18)": Row(
        "ops/optimizer/test_learning_rate.py::test_every_policy_has_a_curve"
        " ops/optimizer/test_learning_rate.py::test_equal_to_caffe2_over_200_iterations"
    ),
    "legacy_pad": Row(
        "ops/nn/test_pool.py::test_output_size ops/nn/test_pool.py::test_refused"
        " ops/nn/test_pool.py::test_caffe_drops_a_window_that_would_begin_in_the_padding"
        " ops/nn/test_pool.py::test_rounding_up_counts_as_padding"
    ),
    "Conv with global_pooling": Row("ops/nn/test_conv.py::test_refused"),
    "1x1 convolution": Row("engines/gemm/test_conv.py::test_columns_and_padding_are_made_only_where_needed"),
    "flags": Row(
        "engines/gemm/test_conv.py::test_the_flag_makes_everybody_share"
        " test_facts_flag_that_replaces_net_types nets/test_net_types.py::test_the_flag_replaces_types"
        " tensor/test_serialization.py::test_chunk_size_comes_from_the_flag"
        " tensor/test_tensor_proto.py::test_float16_as_bytes"
    ),
    "engine choice": Row(
        "operator/test_operator.py::test_engines_are_asked_in_order"
        " operator/test_prepared.py::test_a_preference_is_heeded"
        " operator/test_engine.py::test_a_ranking_holds_until_an_engine_or_a_preference_comes"
    ),
    "workspace look-up": Row(
        "test_workspace.py::test_forwarded_names test_workspace.py::test_removal_and_renaming_are_local"
        " test_workspace.py::test_a_child_sees_and_writes_the_blobs_of_its_parent"
    ),
    "bookkeeper of a workspace": Row(
        "test_workspace.py::test_every_living_workspace_is_visited test_workspace.py::test_bytes_per_blob",
        "the flag that prints them when the process ends",
    ),
    "observers": Row(
        "nets/test_simple.py::test_observers_see_nets_and_operators"
        " observers/test_observers.py::test_times_of_a_net_and_its_operators"
        " observers/test_observers.py::test_a_run_that_fails_counts_too"
    ),
    "global init": Row(
        "runtime/test_init.py::test_early_functions_then_flags_then_functions_in_the_order_of_registration"
        " runtime/test_init.py::test_a_second_call_only_parses_flags"
        " runtime/test_init.py::test_a_nested_call_does_nothing"
        " runtime/test_init.py::test_a_bad_flag_stops_before_functions_and_init_can_be_repeated"
        " runtime/test_init.py::test_an_early_function_is_refused_once_they_ran"
        " runtime/test_init.py::test_a_late_function_runs_at_once"
    ),
    "registry": Row(
        "test_registry.py::test_the_highest_priority_wins_in_any_order"
        " test_registry.py::test_the_same_priority_is_a_duplicate_and_changes_nothing",
        "the end of the process: it is a typed error",
    ),
    "event states": Row("device/test_device.py::test_the_states_of_an_event", "that events tell no time: here they do"),
    "CUDA streams": Row(
        "device/test_stream.py::test_sixty_four_streams_handed_out_in_turn_and_made_once"
        " device/test_stream.py::test_high_priority_never_queues_behind_other_work"
        " device/test_cuda_stream.py::test_streams_are_made_once_with_the_drivers_priorities"
    ),
    "shared cuDNN state": Row(
        "engines/cudnn/test_library.py::test_a_context_has_one_handle_and_each_stream_its_own",
        "states that threads share: each has handles and workspaces of its own, so that nobody waits for a state",
    ),
    "QTensor": Row(
        "array/quantized/test_proto.py::test_values array/quantized/test_proto.py::test_contradictions"
        " array/quantized/test_proto.py::test_padding_is_cleared"
    ),
    "minidb": Row(
        "db/test_minidb.py::test_bytes_of_the_format db/test_reader.py::test_stored_position_needs_an_index"
        " db/test_base.py::test_cursor_walks_and_starts_again"
    ),
    "DBs in the binary of 1.8.1": Row(
        "db/test_protodb.py::test_file_is_one_message db/test_protodb.py::test_bytes_that_caffe2_wrote"
    ),
    "reader position": Row("db/test_reader.py::test_position_is_stored_where_there_is_an_index"),
    "gradient kinds": Row(
        "graph/test_backward.py::test_forbidden_gradients_say_why"
        " graph/test_backward.py::test_what_ends_on_purpose_or_starts_is_declared"
        " ops/shape/test_marker.py::test_gradients_change_their_sign_or_become_zero"
    ),
    "proto files": Row(
        "proto/test_descriptors.py::test_file_is_the_one_of_the_table"
        " tensor/test_tensor_proto.py::test_bfloat16_is_stored_as_float"
    ),
}
"""Every fact behind them."""


def places(row: Row) -> list[tuple[str, str]]:
    """Return the file and the name of each test of a row."""
    pairs = [place.rpartition("::") for place in row.shown.split()]
    return [(file if file else HERE, name) for file, _, name in pairs]


def names_of_tests(file: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((Path(__file__).parent / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_row_is_shown_somewhere() -> None:
    """Each of the 38 rows, and each fact, has tests that exist."""
    assert list(ROWS) == list(range(1, 39))
    assert [key for key, row in [*ROWS.items(), *FACTS.items()] if not row.shown] == []
    listed = {place for row in [*ROWS.values(), *FACTS.values()] for place in places(row)}
    there = {(file, name) for file in {file for file, _ in listed} for name in names_of_tests(file)}
    assert listed - there == set()
    for name in names_of_tests(HERE):
        found = re.match(r"test_row_(\d+)_", name)
        assert found is None or (HERE, name) in places(ROWS[int(found[1])]), f"{name} is not in ROWS"


def test_the_table_has_no_other_facts() -> None:
    if not TABLE.is_file():
        pytest.skip(f"there is no '{TABLE}'; TAZZA_SHARED can name the folder that holds reference/behaviours.md")
    facts = TABLE.read_text(encoding="utf-8").partition("## Facts")[2]
    subjects = [line.split("|")[1].strip() for line in facts.splitlines() if line.startswith("|")]
    assert subjects[2:] == list(FACTS)
