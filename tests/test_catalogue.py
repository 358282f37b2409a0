"""What tile compilers have got wrong before, and the tests that hold each of it here.

Each entry is a behaviour that users of the reference implementation reported or that its tests
cover. An entry names tests of ours, as ``folder/file::function``; the tests of this file check that
they exist. Behaviours of units that no back end uses yet say what they wait for.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PITFALLS = "transforms/test_known_pitfalls"
TMA = "bulk copies of Hopper"
ROLES = "warp specialisation by the compiler"
WGMMA = "matrix instructions of warp groups"


@dataclass(frozen=True)
class Entry:
    """One behaviour with its tests, or with what it waits for."""

    what: str
    tests: tuple[str, ...] = ()
    waits: str = ""


def held(what: str, *tests: str) -> Entry:
    """A behaviour that tests hold. Functions without a file are those of the pitfalls."""
    return Entry(what, tuple(t if "::" in t else f"{PITFALLS}::{t}" for t in tests))


def later(what: str, waits: str) -> Entry:
    """A behaviour of a unit that is not used yet."""
    return Entry(what, waits=waits)


CATALOGUE = {
    # -- frontend ----------------------------------------------------------------------------------
    1: held("values of temporaries are those of the time they were bound",
            "language/test_frontend_python::test_a_binding_is_a_snapshot"),
    2: held("augmented assignment, comparisons assigned to variables, rebinding",
            "language/test_frontend_python::test_every_augmented_operator_on_elements",
            "language/test_frontend_python::test_alloc_var_is_stored_to_by_assignment_and_read_at_each_use",
            "language/test_frontend_python::test_rebinding_makes_a_new_value"),
    3: held("empty kernels, kernels without tensors, one block variable with and without a tuple",
            "test_a_kernel_that_does_nothing",
            "language/test_frontend_python::test_several_kernels_and_none",
            "language/test_kernel_frame::test_names_come_from_the_as_clause"),
    4: held("copies whose extent is known at run time", "test_a_copy_whose_extent_is_known_at_run_time"),
    5: held("64-bit scalars as indices beside 32-bit ones",
            "test_a_wide_scalar_indexes_together_with_narrow_ones"),
    6: held("loops that start at a bound variable", "test_a_loop_starts_at_the_block"),
    7: held("eager functions run and return; scalars typed; wrong outputs refused",
            "language/test_frontend_entry::test_eager_style_infers_constants_from_the_tensors",
            "language/test_frontend_entry::test_eager_style_mixes_scalars_dynamics_and_signature_annotations",
            "seeds/test_notebook::test_the_cell_runs_and_passes_its_own_assertions"),
    8: held("thread counts below one are refused", "language/test_kernel_frame::test_wrong_options"),
    9: held("variables keep the dtype they are declared with",
            "language/test_alloc::test_initial_values_are_cast"),
    10: held("options of one compilation do not reach another",
             "test_options_of_one_compilation_do_not_reach_another",
             "jit/test_jit::test_two_decorations_share_no_kernels"),
    11: held("tracing leaks no frames", "test_tracing_keeps_no_frame_of_the_caller_alive"),
    12: held("every mathematical function for every dtype",
             "cuda/test_device_headers::test_functions_compile",
             "interpret/test_numerics::test_functions_of_one_operand",
             "cuda/test_words_on_gpu::test_functions_of_floats"),
    # -- normalisation -----------------------------------------------------------------------------
    13: held("negative indices", "test_a_negative_index_at_run_time_is_outside",
             "language/test_negative_indices::test_an_index_outside_a_tile_is_reported"),
    14: held("a condition that the body changes is tested once",
             "test_a_condition_that_the_body_changes_is_tested_once"),
    15: held("a condition on what was just written is tested anew",
             "test_a_condition_that_the_body_changes_is_tested_once"),
    16: held("conditions taken out of loops: indices through lets, loaded indices, other corners",
             "transforms/test_guards::test_a_let_is_seen_through",
             "transforms/test_guards::test_one_such_index_keeps_the_whole_nest_from_being_split",
             "transforms/test_guards::test_a_loop_counting_backwards_is_tested_at_its_other_corner"),
    17: held("steps of loops are kept", "transforms/test_pipeline::test_loops_with_a_step",
             "cuda/test_codegen::test_loops_keep_their_bounds_and_kinds"),
    18: held("storage of unrolled iterations is apart",
             "test_variables_of_unrolled_iterations_are_distinct"),
    19: held("simplification respects effects, ranges and overflow",
             "ir/test_simplify::test_effects_are_neither_dropped_nor_merged",
             "ir/test_simplify::test_integer_expressions_keep_their_wrapped_values",
             "transforms/test_simplify_func::test_a_condition_on_a_parameter_stays"),
    20: held("iterations of a parallel loop that meet are found when it runs",
             "transforms/test_thread_races::test_different_values_for_one_element_are_a_race",
             "interpret/test_threads::test_parallel_update_of_lower_rank_is_an_exact_sum"),
    21: held("reads of what nothing has written are found",
             "interpret/test_memory_checks::test_reading_what_was_never_written",
             "interpret/test_memory_checks::test_gemm_onto_an_accumulator_that_was_not_cleared"),
    # -- layouts -----------------------------------------------------------------------------------
    22: held("layouts of a tile and its reductions that do not fit each other",
             "test_row_results_are_stored_to_their_rows",
             "test_one_fragment_reduced_along_both_dimensions",
             "test_a_fragment_read_by_the_number_of_the_thread",
             "transforms/test_layout_inference::test_a_row_result_is_in_the_threads_of_its_row"),
    23: held("fragments of one element, tiles smaller than the block", "test_a_fragment_of_one_element"),
    24: held("one element for a group of columns, of any size",
             "test_a_factor_for_each_group_of_columns"),
    25: held("serial loops over a column inside T.Parallel",
             "test_a_serial_loop_over_a_column_inside_a_parallel_one"),
    26: held("very large loops", "test_a_huge_loop_is_lowered_at_once"),
    27: held("layouts that put two elements in one place are refused",
             "layout/test_validity::test_two_elements_at_one_address_are_refused"),
    28: held("views of other shapes and dtypes", "test_a_view_of_another_shape_and_dtype",
             "cpu/test_loop_fission::test_views_share_storage_and_atomics_do_not_conflict",
             "interpret/test_tiles::test_views_share_the_bits"),
    29: held("tiles that do not divide by the threads", "test_tiles_that_do_not_divide_by_the_threads",
             "layout/test_register_layout::test_padding_is_used_where_it_saves_registers"),
    30: held("annotated layouts of tiles that get stages",
             "transforms/test_pipeline::test_tiles_allocated_in_the_loop_and_layouts"),
    31: held("conditions on threads where a core runs the block",
             "cpu/test_serialize_threads::test_a_branch_on_the_thread_index_stays_inside_the_loop"),
    32: held("the same text in every process",
             "test_the_text_for_a_gpu_is_the_same_in_every_process",
             "ir/test_canonical::test_the_text_is_the_same_in_another_process"),
    33: held("choices that users see change only on purpose",
             "docs/test_instructions::test_a_row_is_current"),
    # -- copies ------------------------------------------------------------------------------------
    34: later("bulk copies: tails, strides, alignment", TMA),
    35: held("swizzled tiles start at multiples of their pattern",
             "transforms/test_arena::test_alignment_and_order"),
    36: later("descriptors of tensors whose address a kernel loads", TMA),
    37: held("num_stages=0 and 1 mean that copies are complete where they stand",
             "transforms/test_pipeline::test_results_do_not_change",
             "explain/test_report::test_a_loop_without_stages_is_serial"),
    38: held("one element left over for the last asynchronous copy",
             "test_one_element_left_over_for_the_last_stage"),
    39: held("values other than zero outside a tensor, with asynchronous copies",
             "transforms/test_vectorize::test_another_safe_value_needs_an_ordinary_copy"),
    40: later("descriptors are made after the buffer they describe", TMA),
    41: later("copies between the blocks of a cluster", TMA),
    42: later("forms of instructions that only newer assemblers know", TMA),
    43: later("counters of barriers over several kernels", TMA),
    44: later("arrivals and expectations of the same barrier only", TMA),
    45: held("columns of a convolution", "transforms/test_gather_lowering::test_columns_of_a_convolution"),
    46: later("atomic bulk copies by dtype", TMA),
    47: held("widths of vectors of copies that convert", "test_copies_that_convert"),
    # -- products ----------------------------------------------------------------------------------
    48: held("warps cover all rows and columns",
             "transforms/test_gemm_lowering::test_every_policy_and_shape",
             "transforms/test_gemm_lowering::test_warps_without_a_part_of_the_result_compute_that_of_another"),
    49: later("two warp groups along the rows", WGMMA),
    50: held("widths of the instruction", "transforms/test_gemm_lowering::test_every_policy_and_shape"),
    51: held("products of length zero", "test_products_of_any_length_known_at_run_time"),
    52: held("two products into one sum, one of them before the loop",
             "test_two_products_into_one_sum_one_of_them_before_the_loop"),
    53: held("float32 factors as tfloat32",
             "transforms/test_gemm_lowering::test_every_dtype_in_every_orientation"),
    54: held("dot products of four bytes", "interpret/test_warp::test_dp4a_adds_a_dot_product_per_thread"),
    55: held("parts of tiles with leading dimensions",
             "transforms/test_gemm_lowering::test_regions_of_larger_tiles_and_stages",
             "transforms/test_gemm_lowering::test_leading_dimensions_of_whole_fragments"),
    56: held("clear_accum", "transforms/test_gemm_lowering::test_clear_and_results_of_other_dtypes",
             "transforms/test_fold_zero_init::test_the_first_product_overwrites"),
    57: later("offsets in descriptors of shared memory", WGMMA),
    58: later("sparse products", "sparse matrix instructions"),
    # -- reductions, scans, atomics ----------------------------------------------------------------
    59: held("workspaces that are used in rounds",
             "transforms/test_reduce_lowering::test_small_workspaces_are_used_in_rounds"),
    60: held("reductions of narrow dtypes inside warps",
             "transforms/test_reduce_lowering::test_fragments_of_every_dtype"),
    61: held("magnitudes of unsigned numbers", "test_the_largest_magnitude_of_unsigned_numbers"),
    62: held("widths that are no power of two",
             "transforms/test_reduce_lowering::test_fragments_of_every_distribution"),
    63: held("reductions that add to what is there",
             "transforms/test_reduce_lowering::test_every_destination",
             "interpret/test_tiles::test_reductions_combine_with_the_old_value"),
    64: held("parts of tiles, elements held several times",
             "transforms/test_reduce_lowering::test_parts_of_tiles",
             "transforms/test_reduce_lowering::test_fragments_of_every_distribution"),
    65: held("shuffles of 64 bits", "cuda/test_words_on_gpu::test_exchange_inside_warps",
             "transforms/test_reduce_lowering::test_fragments_of_every_dtype"),
    66: held("shared memory only where warps have to meet",
             "transforms/test_reduce_lowering::test_registers_are_used_where_the_result_fits",
             "transforms/test_reduce_lowering::test_workspaces_stay_small"),
    67: held("scans of parts", "transforms/test_scan_lowering::test_parts_of_tiles"),
    68: held("atomics: previous values, vectors, memory orders",
             "cuda/test_codegen::test_atomics_name_dtype_and_order",
             "language/test_atomic::test_previous_values_are_expressions",
             "interpret/test_warp::test_vector_atomics"),
    69: held("atomic loads at computed places", "language/test_atomic::test_loads_and_stores"),
    # -- pipelines ---------------------------------------------------------------------------------
    70: held("values bound from the loop variable", "test_a_value_bound_from_the_loop_variable"),
    71: held("pipelines that use nothing of what they copy",
             "test_a_pipelined_loop_that_uses_nothing_of_what_it_copies"),
    72: held("conditions on the loop variable",
             "test_conditions_on_the_loop_variable_in_a_pipeline"),
    73: held("one group of copies for each iteration",
             "transforms/test_pipeline::test_three_stages_with_one_barrier_per_iteration"),
    74: held("effects happen once per iteration",
             "test_atomics_in_a_pipeline_happen_once_per_iteration"),
    75: held("stages, tails, steps, nested and repeated loops",
             "transforms/test_pipeline::test_random_shapes",
             "transforms/test_pipeline::test_nested_and_repeated_loops",
             "transforms/test_pipeline::test_any_number_of_iterations"),
    76: held("state of roles that the program writes itself",
             "interpret/test_programs::test_warp_specialised_pipeline",
             "interpret/test_sync::test_values_bound_in_divergent_branches_are_kept_per_thread"),
    77: later("stage numbers in 64 bits", ROLES),
    78: later("padded layouts and bulk copies", TMA),
    79: later("double buffering with bulk copies", TMA),
    80: held("barriers that a program uses are initialised",
             "cuda/test_codegen::test_barriers_get_their_counts_before_use"),
    81: later("budgets of registers per role", ROLES),
    82: held("tiles filled by loops and by copies in one pipeline",
             "test_tiles_filled_by_loops_and_by_copies_in_one_pipeline"),
    83: held("persistent blocks visit each tile once",
             "language/test_loops::test_persistent_blocks_together_visit_every_tile_once",
             "language/test_loops::test_the_tile_scheduler_visits_every_tile_once"),
    84: later("schedules written by hand", ROLES),
    # -- order and memory --------------------------------------------------------------------------
    85: held("no barrier where a thread reads what it wrote itself",
             "cpu/test_loop_fission::test_loops_with_one_distribution_need_no_barrier"),
    86: held("barriers after atomics on shared memory",
             "test_what_atomics_add_up_in_shared_memory_is_read_after_a_barrier"),
    87: held("no barrier where only some threads come",
             "cpu/test_loop_fission::test_an_exchange_that_some_threads_miss_is_an_error"),
    88: held("hazards that come round a loop",
             "cpu/test_loop_fission::test_a_tile_that_is_filled_and_used_in_a_loop",
             "cpu/test_loop_fission::test_random_programs_have_no_races"),
    89: held("aliases of other element sizes",
             "cpu/test_loop_fission::test_views_share_storage_and_atomics_do_not_conflict"),
    90: held("barriers of parts of the block",
             "cpu/test_loop_fission::test_groups_are_listed_with_their_barriers",
             "transforms/test_reduce_lowering::test_a_part_of_the_block_reduces_with_its_own_barrier"),
    91: held("thread indices in several dimensions",
             "interpret/test_threads::test_thread_indices_in_two_dimensions"),
    92: held("bound values do not hide what they read", "test_bound_values_do_not_hide_what_they_read"),
    93: later("fences between the two proxies of shared memory", TMA),
    94: held("shared memory by lifetimes",
             "transforms/test_arena::test_a_tile_reuses_the_memory_of_a_dead_one",
             "transforms/test_arena::test_tiles_of_a_loop_live_through_all_of_it",
             "transforms/test_arena::test_live_tiles_never_overlap"),
    95: held("addresses beyond 32 bits",
             "cuda/test_codegen::test_an_address_that_passes_two_billion_is_wide",
             "cuda/test_codegen::test_sizes_that_are_not_known_make_indices_wide"),
    96: held("offsets of parts are counted once", "test_addresses_of_parts_count_their_offset_once"),
    # -- generated code ----------------------------------------------------------------------------
    97: held("literals and packs of narrow dtypes",
             "interpret/test_numerics::test_a_literal_of_every_type_is_representable",
             "cuda/test_headers_on_host::test_nibbles_are_stored_low_first"),
    98: held("choices lane by lane", "transforms/test_gpu_programs::test_programs_mean_the_same"),
    99: held("NaN and infinity of narrow floats",
             "cuda/test_headers_on_host::test_small_floats_convert_as_in_numpy"),
    100: held("scalars of 16 bits on the host",
              "cuda/test_host_steps::test_narrow_scalars_arrive_as_float_and_are_rounded"),
    101: held("const and restrict only where they hold",
              "cuda/test_codegen::test_written_tensors_are_not_const",
              "cuda/test_codegen::test_a_kernel_that_waits_for_its_predecessor_reads_past_the_cache"),
    102: held("places of the program are kept",
              "language/test_copy::test_copies_carry_the_users_line",
              "cuda/test_codegen::test_a_plain_kernel_reads_like_the_program"),
    103: held("registers and private arrays in their scopes",
              "cuda/test_codegen::test_registers_variables_and_packed_arrays"),
    104: held("loads inside guarded stores are guarded too",
              "transforms/test_guards::test_an_index_loaded_from_a_tensor_is_guarded_at_both_levels"),
    # -- host --------------------------------------------------------------------------------------
    105: held("arguments that may be None",
              "runtime/test_arguments::test_symbol_carried_only_by_none_is_refused",
              "runtime/test_launch::test_unused_tensor_may_be_none"),
    106: held("grids of no blocks", "runtime/test_cuda_launch::test_empty_grid_starts_nothing"),
    107: held("strides of dimensions of size one",
              "runtime/test_launch::test_stride_of_a_dimension_of_size_one_is_ignored"),
    108: held("shapes of packed dtypes",
              "runtime/test_launch::test_packed_types_count_two_elements_per_byte"),
    109: held("messages for wrong calls", "runtime/test_arguments::test_wrong_call_is_explained"),
    110: held("scalars and handles arrive as their types",
              "runtime/test_cuda_launch::test_parameters_arrive_as_their_types",
              "jit/test_wrappers::test_scalars_are_converted_to_the_type_that_the_kernel_takes"),
    111: held("architectures of the device, with and without letters",
              "cuda/test_toolchain::test_choice_follows_architecture_and_driver",
              "cuda/test_toolchain::test_unknown_architecture"),
    112: held("the cache: options in the key, content, renaming, several processes",
              "jit/test_cache::test_flags_are_part_of_the_key",
              "runtime/test_cache::test_processes_that_write_the_same_entries_agree",
              "runtime/test_cache::test_killed_writer_leaves_no_wrong_entry"),
    113: held("where NVRTC and its headers are found",
              "cuda/test_toolchain::test_indices_in_order",
              "cuda/test_toolchain::test_headers_are_given_in_memory"),
    114: held("shared memory of several kernels",
              "cuda/test_driver::test_kernels_get_their_attributes",
              "cuda/test_host_steps::test_several_kernels_and_branches"),
}  # fmt: skip


@lru_cache
def functions_of(file: str) -> frozenset[str]:
    """Names of the test functions of a file, with those in classes."""
    path = TESTS / f"{file}.py"
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def missing(entry: Entry) -> list[str]:
    """The tests of ``entry`` that do not exist."""
    pairs = (test.split("::") for test in entry.tests)
    return [f"{file}::{name}" for file, name in pairs if name not in functions_of(file)]


def test_the_catalogue_is_whole() -> None:
    assert sorted(CATALOGUE) == list(range(1, 115))
    for number, entry in CATALOGUE.items():
        assert bool(entry.tests) != bool(entry.waits), number
        assert entry.what, number


@pytest.mark.parametrize("number", CATALOGUE)
def test_the_tests_of_a_behaviour_exist(number: int) -> None:
    assert not missing(CATALOGUE[number])


def test_a_test_that_does_not_exist_is_named() -> None:
    entry = held("x", "transforms/test_guards::test_of_nothing", "no/such_file::test_x")
    assert missing(entry) == ["transforms/test_guards::test_of_nothing", "no/such_file::test_x"]


def test_every_pitfall_is_in_the_catalogue() -> None:
    named = {test for entry in CATALOGUE.values() for test in entry.tests}
    own = {name for name in functions_of(PITFALLS) if name.startswith("test_")}
    assert {f"{PITFALLS}::{name}" for name in own} <= named
