"""Options of a compilation: the pass-config keys of the language, the frozen options, and
what ``with`` statements around it say.

Programs pass ``pass_configs={tilelang.PassConfigKey.TL_...: value}`` or plain strings. Every key
is accepted; the table says which have a meaning here. Only three change results (bounds checks,
automatic barriers, fast math); the others are performance or debugging choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from enum import Enum
from functools import lru_cache
from os import PathLike
from typing import Any, TypeAlias

from tilelang.errors import TileUnsupportedError, TileValueError, check_type, near, shown
from tilelang.records import dataclass
from tilelang.warning import warn_caller


class PassConfigKey(str, Enum):
    """Names of the pass configurations, as programs spell them."""

    TL_SIMPLIFY = "tl.Simplify"
    TL_DISABLE_WARP_SPECIALIZED = "tl.disable_warp_specialized"
    TL_ENABLE_FAST_MATH = "tl.enable_fast_math"
    TL_DISABLE_FAST_MATH = "tl.disable_fast_math"
    TL_DISABLE_TMA_LOWER = "tl.disable_tma_lower"
    TL_DISABLE_THREAD_STORAGE_SYNC = "tl.disable_thread_storage_sync"
    TL_DISABLE_VECTORIZE_256 = "tl.disable_vectorize_256"
    TL_PTXAS_REGISTER_USAGE_LEVEL = "tl.ptxas_register_usage_level"
    TL_ENABLE_PTXAS_VERBOSE_OUTPUT = "tl.enable_ptxas_verbose_output"
    TL_DEVICE_COMPILE_FLAGS = "tl.device_compile_flags"
    TL_DISABLE_OUT_OF_BOUND_WARNING = "tl.disable_out_of_bound_warning"
    TL_ENABLE_LOWER_LDGSTG = "tl.enable_lower_ldgstg"
    TL_ENABLE_LOWER_LDGSTG_PREDICATED = "tl.enable_lower_ldgstg_predicated"
    TL_DISABLE_DATA_RACE_CHECK = "tl.disable_data_race_check"
    TL_DISABLE_PERSISTENT_TILES = "tl.disable_persistent_tiles"
    TL_DISABLE_LAUNCH_VERSIONS = "tl.disable_launch_versions"
    TL_DISABLE_WGMMA = "tl.disable_wgmma"
    TL_DISABLE_WGMMA_OVERLAP = "tl.disable_wgmma_overlap"
    TL_DISABLE_SAFE_MEMORY_ACCESS = "tl.disable_safe_memory_legalize"
    TL_CONFIG_INDEX_BITWIDTH = "tl.config_index_bitwidth"
    TL_ENABLE_AGGRESSIVE_SHARED_MEMORY_MERGE = "tl.enable_aggressive_shared_memory_merge"
    TL_DISABLE_SHARED_MEMORY_REUSE = "tl.disable_shared_memory_reuse"
    TL_DISABLE_SHUFFLE_ELECT = "tl.disable_shuffle_elect"
    TL_ENABLE_ASYNC_COPY = "tl.enable_async_copy"
    TL_FORCE_LET_INLINE = "tl.force_let_inline"
    TL_AST_PRINT_ENABLE = "tl.ast_print_enable"
    TL_LAYOUT_VISUALIZATION_ENABLE = "tl.layout_visualization_enable"
    TL_LAYOUT_VISUALIZATION_FORMATS = "tl.layout_visualization_formats"
    TL_STORAGE_REWRITE_DETECT_INPLACE = "tl.storage_rewrite_detect_inplace"
    TL_DISABLE_BUFFER_INIT_CHECK = "tl.disable_buffer_init_check"
    TL_DISABLE_PRELOWER_SEMANTIC_CHECK = "tl.disable_prelower_semantic_check"
    TL_DISABLE_LOOP_UNSWITCHING = "tl.disable_loop_unswitching"
    TL_LOOP_UNSWITCHING_ALLOW_NON_TRIVIAL_ELSE = "tl.loop_unswitching_allow_non_trivial_else"
    TL_LAYOUT_COST_MODEL = "tl.layout_cost_model"
    TL_REDUCER_FORCE_BASELINE = "tl.reducer_force_baseline"
    TL_EMIT_LINE_DIRECTIVES = "tl.emit_line_directives"
    TL_ENABLE_DUMP_IR = "tl.enable_dump_ir"
    TL_DUMP_IR_DIR = "tl.dump_ir_path"
    TL_DUMP_IR_AFTER = "tl.dump_ir_after"
    TL_STOP_AFTER = "tl.stop_after"
    TL_PASS_PROFILE = "tl.pass_profile"
    TL_PASS_PROFILE_THRESHOLD_MS = "tl.pass_profile_threshold_ms"
    TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS = "tl.debug_merge_shared_memory_allocations"
    TL_ENABLE_VECTORIZE_PLANNER_VERBOSE = "tl.enable_vectorize_planner_verbose"
    TIR_ENABLE_EQUIV_TERMS_IN_CSE = "tir.enable_equiv_terms_in_cse_tir"
    TIR_DISABLE_CSE = "tir.disable_cse_tir"
    TIR_SIMPLIFY = "tir.Simplify"
    TIR_DISABLE_STORAGE_REWRITE = "tir.disable_storage_rewrite"
    TIR_DISABLE_VECTORIZE = "tir.disable_vectorize"
    TIR_USE_ASYNC_COPY = "tir.use_async_copy"
    TIR_ENABLE_DEBUG = "tir.enable_debug"
    TIR_MERGE_STATIC_SMEM = "tir.merge_static_smem"
    TIR_ADD_LOWER_PASS = "tir.add_lower_pass"
    TIR_NOALIAS = "tir.noalias"
    CUDA_KERNELS_OUTPUT_DIR = "cuda.kernels_output_dir"
    TL_SIMPLIFY_TRANSITIVELY_PROVE_INEQUALITIES = "transitively_prove_inequalities"
    TL_SIMPLIFY_CONVERT_BOOLEAN_TO_AND_OF_ORS = "convert_boolean_to_and_of_ors"
    TL_SIMPLIFY_APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = "apply_constraints_to_boolean_branches"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_PROVE_CONDITIONAL = "propagate_knowns_to_prove_conditional"
    TL_SIMPLIFY_PROPAGATE_KNOWNS_TO_SIMPLIFY_EXPRESSIONS = (
        "propagate_knowns_to_simplify_expressions"
    )
    TL_SIMPLIFY_ENABLE_LET_INLINE = "enable_simplify_let_inline"
    TL_IF_STMT_BINDING_INLINE_REPLAYABLE_BINDS = "tl.if_stmt_binding_inline_replayable_binds"
    TL_ENABLE_AUTO_SCHEDULE = "tl.enable_auto_schedule"
    TL_ENABLE_AUTO_WARP_SPECIALIZATION = "tl.enable_auto_warp_specialization"
    TL_ENABLE_FP32X2_REDUCTION = "tl.enable_fp32x2_reduction"
    TL_ENABLE_REDUCER_PLAN_VERBOSE = "tl.enable_reducer_plan_verbose"
    TL_UNINITIALIZED_READS = "tl.uninitialized_reads"
    TL_NEGATIVE_INDICES = "tl.negative_indices"
    TL_SIMDGROUP_ELEMENT_MAP = "tl.simdgroup_element_map"


# Keys that change what a compilation does here, with the option they set.
MEANING = {
    PassConfigKey.TL_DISABLE_SAFE_MEMORY_ACCESS: "unsafe_memory",
    PassConfigKey.TL_ENABLE_FAST_MATH: "fast_math",
    PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: "no_auto_sync",
    PassConfigKey.TL_ENABLE_DUMP_IR: "dump",
    PassConfigKey.TL_DUMP_IR_DIR: "dump_dir",
    PassConfigKey.TL_DUMP_IR_AFTER: "dump_after",
    PassConfigKey.TL_STOP_AFTER: "stop_after",
    PassConfigKey.TL_PASS_PROFILE: "profile",
    PassConfigKey.TL_PASS_PROFILE_THRESHOLD_MS: "profile_threshold",
    PassConfigKey.TL_DISABLE_TMA_LOWER: "no_tma",
    PassConfigKey.TL_DISABLE_WGMMA: "no_wgmma",
    PassConfigKey.TL_DISABLE_WGMMA_OVERLAP: "no_overlap",
    PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: "no_roles",
    PassConfigKey.TL_DISABLE_PERSISTENT_TILES: "no_persistent_tiles",
    PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: "no_launch_versions",
    PassConfigKey.TL_SIMDGROUP_ELEMENT_MAP: "element_map",
}
# Debugging output of another implementation: asked for, not given.
WITHOUT_EFFECT = frozenset(
    {
        PassConfigKey.TL_AST_PRINT_ENABLE,
        PassConfigKey.TL_LAYOUT_VISUALIZATION_ENABLE,
        PassConfigKey.TL_ENABLE_REDUCER_PLAN_VERBOSE,
        PassConfigKey.TL_ENABLE_VECTORIZE_PLANNER_VERBOSE,
        PassConfigKey.TL_DEBUG_MERGE_SHARED_MEMORY_ALLOCATIONS,
        PassConfigKey.TL_ENABLE_PTXAS_VERBOSE_OUTPUT,
        PassConfigKey.CUDA_KERNELS_OUTPUT_DIR,
        PassConfigKey.TIR_ADD_LOWER_PASS,
    }
)


# What the value of a key has to be, and how it becomes that of its option; others are switches.
_Kind: TypeAlias = tuple[Callable[[Any], bool], str, Callable[[Any], object]]
_SWITCH_TYPES = ("bool", "bool_", "int", "NoneType")  # those of numpy too
_SWITCH: _Kind = (lambda value: type(value).__name__ in _SWITCH_TYPES and value in (0, 1, None),
                  "True or False", bool)  # fmt: skip
_TEXT: _Kind = (lambda value: isinstance(value, (str, PathLike, type(None))), "a string",
                lambda value: str(value or ""))  # fmt: skip
_TIME: _Kind = (lambda value: isinstance(value, (int, float)) and value >= 0,
                "milliseconds, 0 or more", float)  # fmt: skip
_KINDS = {"dump_dir": _TEXT, "dump_after": _TEXT, "stop_after": _TEXT, "profile_threshold": _TIME}


def _option_value(key: PassConfigKey, value: object) -> object:
    """What a key with a meaning sets its option to.

    Raises:
        TileValueError: ``value`` is nothing that the key can have.
    """
    is_valid, expected, convert = _KINDS.get(MEANING[key], _SWITCH)
    if is_valid(value):
        return convert(value)
    raise _unknown(key, expected, value)


def _unknown(key: PassConfigKey, expected: str, value: object) -> TileValueError:
    return TileValueError(
        f"pass config {key.value!r} has an unknown value", expected=expected, got=shown(value)
    )


@dataclass(frozen=True)
class Options:
    """Everything besides program and target that decides what is generated."""

    unsafe_memory: bool = False  # no bounds checks of global tensors
    uninitialized: str = "error"  # reads of what nothing has written, in the interpreter
    negative_indices: str = "outside"  # of elements at run time, in the interpreter
    fast_math: bool = False  # approximate functions, reassociation
    no_auto_sync: bool = False  # the program places its own barriers
    no_tma: bool = False  # copies do not become TMA copies by themselves
    no_wgmma: bool = False  # products do not become those of warpgroups
    no_overlap: bool = False  # products of warpgroups end in the iteration that issues them
    no_persistent_tiles: bool = False  # blocks of products have a tile each
    no_launch_versions: bool = False  # one kernel for rows of any alignment
    no_roles: bool = False  # warps do not get roles (copying, computing) by themselves
    element_map: bool = False  # elements of simdgroup matrices are where all chips so far have them
    dump: bool = False  # write the program after every pass
    dump_dir: str = ""
    dump_after: str = ""  # write it only after these passes; commas between their names
    stop_after: str = ""  # print it after this pass, and stop
    profile: bool = False  # print what each pass takes
    profile_threshold: float = 0.0  # milliseconds that a pass takes at least to be printed
    verbose: bool = False
    compile_flags: tuple[str, ...] = ()
    configs: tuple[tuple[str, object], ...] = field(default=())


def check_configs(configs: object, option: str) -> None:
    """Refuse pass configurations that are not a dict."""
    expected = "{tilelang.PassConfigKey...: value, ...}"
    check_type(configs, (Mapping, type(None)), f"{option} is not a dict", expected)


def config_key(key: Any) -> PassConfigKey:
    """The key named by an enum member or string; "tirx." means "tir."."""
    if isinstance(key, PassConfigKey):
        return key
    expected = "a tilelang.PassConfigKey or its string"
    check_type(key, str, f"pass_configs has the key {shown(key)}", expected)
    text = "tir." + key[5:] if key.startswith("tirx.") else key
    for member in PassConfigKey:
        if member.value.lower() == text.lower() or member.name == text:
            return member
    known = [member.value for member in PassConfigKey]
    raise TileValueError(
        f"unknown pass config {shown(key)}",
        expected="a member of tilelang.PassConfigKey",
        hint=near(text, known, value=True) or f"known keys: {', '.join(known[:6])}, ...",
    )


@lru_cache(maxsize=64)
def _warn_once(message: str) -> None:
    """Warn once per process, however many kernels ask for the same."""
    warn_caller(message)


def make_options(
    pass_configs: Mapping[object, object] | None = None,
    compile_flags: object = None,
    verbose: bool = False,
) -> Options:
    """Options from what a program passes to ``jit`` or ``compile``."""
    values: dict[str, object] = {}
    configs: list[tuple[str, object]] = []
    for raw, value in (pass_configs or {}).items():
        key = config_key(raw)
        configs.append((key.value, value))
        if key in MEANING:
            values[MEANING[key]] = _option_value(key, value)
        elif key is PassConfigKey.TL_DISABLE_BUFFER_INIT_CHECK and value:
            values.setdefault("uninitialized", "zero")
        elif key is PassConfigKey.TL_UNINITIALIZED_READS:
            values["uninitialized"] = _rule(key, value, ("error", "warn", "zero"))
        elif key is PassConfigKey.TL_NEGATIVE_INDICES:
            values["negative_indices"] = _rule(key, value, ("error", "warn", "outside"))
        elif key in WITHOUT_EFFECT and value:
            _warn_once(f"pass config {key.value!r} has no effect")
        if key is PassConfigKey.TL_DEVICE_COMPILE_FLAGS and value:
            values["compile_flags"] = flag_list(value)
    flags = (*flag_list(values.pop("compile_flags", None)), *flag_list(compile_flags))
    return Options(
        **values,  # type: ignore[arg-type]  # names and types come from MEANING
        verbose=verbose,
        compile_flags=flags,
        configs=tuple(sorted(configs, key=lambda pair: pair[0])),
    )


def _rule(key: PassConfigKey, value: object, rules: tuple[str, str, str]) -> str:
    """The reaction of the interpreter to a mistake; a switch chooses the first or the last."""
    if isinstance(value, bool):
        return rules[0] if value else rules[-1]
    if isinstance(value, str) and value in rules:
        return value
    raise _unknown(key, "{}, {} or {}".format(*rules), value)


def flag_list(flags: Any) -> tuple[str, ...]:
    """Compiler flags given as a string or a sequence."""
    if flags is None:
        return ()
    if isinstance(flags, str):
        return tuple(flags.split())
    check_type(flags, (list, tuple), "compile_flags has the wrong type", "a list of strings")
    return tuple(part for flag in flags for part in str(flag).split())


# -- with statements around a compilation ----------------------------------------------------------
@dataclass(frozen=True)
class Surroundings:
    """The settings of the surrounding ``with`` statements.

    Attributes:
        target: of the innermost ``with Target(...)``, which "auto" means inside it.
        configs: of the innermost ``with PassContext(...)``, as (key, value as text).
        context: that pass context.
        outer: what holds again after the ``with`` statement.
    """

    target: Any = None
    configs: tuple[tuple[str, str], ...] = ()
    context: PassContext | None = None
    outer: Surroundings | None = None

    @property
    def key(self) -> tuple[Any, ...] | None:
        """The settings that decide a compilation; None outside of ``with`` statements."""
        return None if self.outer is None else (self.target, self.configs)

    def enter(self, **changes: Any) -> None:
        """These surroundings with ``changes`` hold until :func:`leave_surroundings`."""
        _AROUND.set(replace(self, outer=_AROUND.get(), **changes))


_NOTHING = Surroundings()
_AROUND: ContextVar[Surroundings] = ContextVar("tilelang_surroundings", default=_NOTHING)

surroundings = _AROUND.get  # of this thread or task


def leave_surroundings() -> None:
    """Restore the settings before the last :meth:`Surroundings.enter` of this thread or task."""
    _AROUND.set(_AROUND.get().outer or _NOTHING)


class PassContext:
    """``with PassContext(config={key: value}):`` what is compiled inside gets this configuration;
    that of the program itself and ``pass_configs=`` override it, an outer context is hidden.

    Args:
        config: ``tilelang.PassConfigKey`` or its string -> value.
        opt_level, required_pass: accepted; there is one list of passes.
        disabled_pass, instruments: there are none to leave out or to call.

    Raises:
        TileTypeError: ``config`` is not a dict.
        TileValueError: an unknown key.
        TileUnsupportedError: ``disabled_pass`` or ``instruments`` name something.
    """

    def __init__(
        self, opt_level: int = 2, required_pass: Any = None, disabled_pass: Any = None,
        instruments: Any = None, config: Mapping[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        for name, unsupported in (("disabled_pass", disabled_pass), ("instruments", instruments)):
            if unsupported:
                raise TileUnsupportedError(
                    f"PassContext has no {name}: the passes of this compiler are one list",
                    expected=f"no {name}",
                    got=shown(unsupported),
                    hint="tl.enable_dump_ir writes the program after each pass, tl.pass_profile "
                    "prints what each takes",
                )
        check_configs(config, "config of PassContext")
        self.opt_level = opt_level
        self.config = {config_key(key).value: value for key, value in (config or {}).items()}

    def __enter__(self) -> PassContext:
        message = tuple(sorted((key, repr(value)) for key, value in self.config.items()))
        surroundings().enter(configs=message, context=self)
        return self

    def __exit__(self, *_: object) -> None:
        leave_surroundings()

    @staticmethod
    def current() -> PassContext:
        """The context of the innermost ``with`` statement, or an empty one."""
        return surroundings().context or PassContext()
