"""Programs of these tests that GPUs of AMD and Apple refuse, and what they say.

A program that uses what only NVIDIA's GPUs have gets an error that names the word and what to write
instead. All other programs of the fixture ``gpu`` run there.
"""

from __future__ import annotations

import re

from gpus import METAL, OTHERS

AMD = tuple(name for name in OTHERS if name != METAL)
APPLE = (METAL,)
EVERY = tuple(OTHERS)

_BARRIER = r"the barrier `\w+` is not available on \w+\n\s+expected: T\.sync_threads\(\)"
_SOME_THREADS = (
    r"a barrier of some threads of a block is not available on \w+\n\s+expected: T\.sync_"
)
_WARPS = r"T\.ptx_(mma|ldmatrix) is not available on \w+\n\s+expected: T\.gemm"
_GROUPS = r"T\.initialize_wgmma_descriptor is not available on \w+\n\s+expected: T\.gemm"
_MEMORY = (
    r"bytes of shared memory, \d+ more than a block of .* can have\n\s+expected: at most \d+ b"
)
_DTYPE = r"is of dtype \w+, which Metal does not have\n\s+expected: bfloat16, float16, float32, "


def _word(name: str) -> str:
    return rf"T\.{name}\b[^\n]* is not available on \w+\n\s+expected: "


# Name of a test and its parameters but for the GPU -> GPUs, and what the error says.
REFUSED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (r"test_(all_swizzles|sums_of_half|an_instruction_at).*", AMD, _GROUPS),
    (r"test_(all_swizzles|sums_of_half|an_instruction_at).*", APPLE, _MEMORY),
    (r"test_(slices_of_stages_and_four|shares_of_columns).*", EVERY, _MEMORY),
    (r"test_products_of_warps.*", EVERY, _WARPS),
    (r"test_programs_of_intrinsics_are_right\[matrices\]", EVERY, _WARPS),
    (r"test_programs_of_intrinsics_are_right.*", EVERY, _BARRIER),
    (
        r"test_(launches_from_c_and_python|warpgroups_that_wait|programs_with_roles).*",
        EVERY,
        _BARRIER,
    ),
    (r"test_tiles_in_roles_are_multiplied_by_warpgroups.*", EVERY, _BARRIER),
    (r"test_a_tile_operation_under_a_thread_condition_runs_once", EVERY, _SOME_THREADS),
    (r"test_blocks_of_a_grid_synchronize", EVERY, _word("sync_grid")),
    (r"test_sums_rounded_up_and_quotients_rounded_to_zero", EVERY, _word("ieee_add")),
    (r"test_the_example_agrees_with_numpy\[w4a16\]", APPLE, _MEMORY),
    (r"test_the_example_reads_its_weights\[1024-2\]", EVERY, _MEMORY),
    (r"test_the_example_reads_its_weights\[512-2\]", APPLE, _MEMORY),
    (r"test_small_floats.*\[float(6|8_e3m4|8_e4m3b11|8_e8m0|8_\w+fnuz).*\]", APPLE, _DTYPE),
    (r"test_block_votes_and_election", APPLE, _word("syncthreads_count")),
    (r"test_random_numbers_are_the_same", APPLE, _word("rng_init")),
    (r"test_thread_allreduce_combines_the_block", APPLE, _word("thread_allreduce")),
    (r"test_a_failed_assertion_stops_with_its_message", APPLE, _word("device_assert")),
    (r"test_printed_text_is_shown", APPLE, _word("print")),
)


def refusal(test: str, place: str) -> str:
    """What the error of a test says at a place; "" where there is none.

    Args:
        test: with its parameters, as pytest names it.
    """
    name = test.replace(f"[{place}-", "[").replace(f"[{place}]", "")
    said = (
        text for names, places, text in REFUSED if place in places and re.fullmatch(names, name)
    )
    return next(said, "")
