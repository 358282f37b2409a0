"""Names that programs import and that this implementation does not have, with what to use instead.

A module of such names answers an import with a placeholder, so that a program which imports more
than it uses runs; the first use raises an error that says what to do. What a module neither has
nor lists is an ordinary ``AttributeError``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tilelang.errors import TileUnsupportedError

_PASSES = (
    "the passes of this compiler are functions PrimFunc -> PrimFunc; "
    "tilelang.compiler.pass_list(target) lists them, PassConfigKey.TL_ENABLE_DUMP_IR writes the "
    "program after each"
)
_EMITTERS = "T.gemm chooses matrix instructions; T.ptx_mma and its relatives issue single ones"
_NODES = "tilelang.ir has the classes of this IR; func.script() shows a program as text"
_OBJECTS = "pass numpy arrays, torch tensors or anything with __dlpack__"
_REGISTRY = "this package has no registry of C++ functions; tilelang.compile runs everything"
TEXTS = (
    "kernel.get_kernel_source() shows the text, T.CUDASourceCodeKernel launches an edited one, "
    "tilelang.sanitize(kernel, ..., source=text) checks it"
)
_CHECKS = "tilelang.compile makes these checks; tilelang.sanitize(kernel, ...) those of a run"

# Module -> name -> advice. A name may be a class or a function.
ABSENT: Mapping[str, Mapping[str, str]] = {
    "tilelang.analysis": dict.fromkeys(
        ("FragmentLoopChecker", "NestedLoopChecker", "ParallelLocalIndexChecker"), _CHECKS
    )
    | {
        "ASTPrinter": "func.script() gives the program as text",
        "LayoutVisual": "tilelang.tools.plot_layout draws a layout",
    },
    "tilelang.backend": dict.fromkeys(
        (
            "BackendContext", "BackendModule", "create_backend_context", "get_backend",
            "list_backends", "register_backend", "register_target_detector",
        ),
        "the back ends are fixed: tilelang.compile(func, target=...) names one",
    ),
    "tilelang.cache": {"kernel_cache": "tilelang.cache.clear_cache() and TILELANG_CACHE_DIR"},
    "tilelang.contrib.cc": {"create_executable": "cc.create_shared makes a shared library"},
    "tilelang.engine": dict.fromkeys(("register_c_postproc", "register_hip_postproc"), TEXTS),
    "tilelang.engine.callback": dict.fromkeys(
        (
            "register_c_postproc", "register_c_postproc_callback", "register_hip_postproc",
            "register_hip_postproc_callback",
        ),
        TEXTS,
    ),
    "tilelang.intrinsics": dict.fromkeys(
        (
            "INT4TensorCoreIntrinEmitter", "MatrixCoreIntrinEmitter",
            "TensorCoreIntrinEmitterWithLadderTransform",
        ),
        _EMITTERS,
    ),
    "tilelang.intrinsics.mfma_macro_generator": dict.fromkeys(
        ("MatrixCoreIntrinEmitter", "MatrixCorePreshuffleIntrinEmitter"), _EMITTERS
    ),
    "tilelang.layout": {
        "make_cutlass_metadata_layout": "metadata in the format of tilelang.utils.sparse.compress"
    },
    "tilelang.jit.adapter.nvrtc": dict.fromkeys(
        ("NVRTCKernelAdapter", "NVRTCLibraryGenerator"),
        'tilelang.compile(func, target="cuda", execution_backend="nvrtc")',
    ),
    "tilelang.jit.adapter.torch": {"MetalKernelAdapter": "there are no Metal kernels yet"},
    "tilelang.primitives": {"gemm": "T.gemm(A, B, C)"},
    "tilelang.quantize": dict.fromkeys(
        ("get_lop3_intrin_group", "get_mxfp_intrin_group", "gen_quant4"),
        "T.cast converts from 4-bit and 8-bit types; shifts and masks unpack integers, as "
        "tilelang.quantize._tir_packed_to_unsigned_convert does",
    ),
    "tilelang.tileop": dict.fromkeys(("Gemm", "GemmBlockScaled", "GemmSP"), _EMITTERS),
    "tilelang.tools.cuda": {
        "iket": "its events go to a profiler that this package does not serve: take the calls out; "
        "tilelang.profiler times kernels, Nsight Compute shows their lines"
    },
    "tilelang.transform": dict.fromkeys(
        (
            "AnnotateDeviceRegions", "ClusterPlanning", "ConfigIndexBitwidth", "DecoupleTypeCast",
            "FlattenBuffer", "HoistBroadcastValues", "HoistGlobalBufferAllocations",
            "IfStmtBinding", "InjectAssumes", "InjectSoftwarePipeline", "LayoutInference",
            "LegalizeNegativeIndex", "LegalizeSafeMemoryAccess", "LegalizeVectorizedLoop",
            "LetInline", "LoopUnswitching", "LowerAccessPtr", "LowerDeviceKernelLaunch",
            "LowerIntrin", "LowerOpaqueBlock", "LowerThreadAllreduce", "LowerTileOp",
            "MakePackedAPI", "MaterializeKernelLaunch", "MergeIfStmt",
            "MergeSharedMemoryAllocations", "PipelinePlanning",
            "PlanAndUpdateBufferAllocationLocation", "Simplify", "SplitHostDevice",
            "StorageRewrite", "ThreadSync", "UnrollLoop", "VectorizeLoop", "VerifyBufferInit",
            "VerifyParallelLoop",
        ),
        _PASSES,
    ),
    "tilelang.utils.sparse": {
        "compress_sm90": "tilelang.utils.sparse.compress packs a matrix for every target"
    },
    "tilelang.tvm": dict.fromkeys(
        ("compile", "build"), "tilelang.compile(func, target=...) gives a kernel"
    )
    | dict.fromkeys(("cpu", "cuda", "device", "nd"), _OBJECTS)
    | {"get_global_func": _REGISTRY, "register_func": _REGISTRY},
    "tilelang.tvm.arith": dict.fromkeys(
        (
            "ConstIntBound", "IntSet", "IntervalSet", "IterMapExpr", "IterMark", "IterSplitExpr",
            "IterSumExpr", "ProofStrength", "detect_iter_map", "estimate_region_lower_bound",
            "estimate_region_strict_bound", "estimate_region_upper_bound", "int_set",
            "inverse_affine_iter_map", "iter_map_simplify", "normalize_iter_map_to_expr",
            "normalize_to_iter_sum", "subspace_divide",
        ),
        "tilelang.ir.bounds has intervals and proofs, tilelang.layout index maps",
    ),
    "tilelang.tvm.ffi": dict.fromkeys(
        ("get_global_func", "register_func", "register_global_func", "register_object"), _REGISTRY
    ),
    "tilelang.tvm.ir": dict.fromkeys(
        ("CallingConv", "GlobalVar", "Op", "instrument", "make_node"), _NODES
    ),
    "tilelang.tvm.runtime": dict.fromkeys(("Module", "empty", "load_module", "tensor"), _OBJECTS),
    "tilelang.tvm.testing": {"parameter": "pytest.mark.parametrize"},
    "tilelang.tvm.tir": dict.fromkeys(
        (
            "AllocBuffer", "AttrStmt", "BlockRealize", "DeclBuffer", "SBlock", "SizeVar",
            "analysis", "schedule", "Schedule", "vscale",
        ),
        _NODES,
    )
    | {"transform": _PASSES, "call_packed": _REGISTRY},
    "tilelang.tvm.tir.stmt_functor": {
        "ir_transform": "tilelang.ir.visitor.Rewriter rewrites programs",
        "substitute": "tilelang.ir.visitor.substitute, or PrimFunc.specialize",
    },
    "tilelang.tvm.transform": dict.fromkeys(("Pass", "Sequential", "module_pass"), _PASSES),
}  # fmt: skip

# Names of other languages, of numpy and of the original that `T` does not have -> what a kernel
# writes instead.
_WORDS = (
    ("relu", "T.max(x, 0)"),
    ("silu", "x * T.sigmoid(x)"),
    ("gelu", "0.5 * x * (1 + T.erf(x / 2**0.5))"),
    ("softmax", "T.reduce_max, T.exp and T.reduce_sum"),
    ("where", "T.if_then_else(cond, x, y)"),
    ("maximum", "T.max(x, y)"),
    ("minimum", "T.min(x, y)"),
    ("clip", "T.clamp(x, low, high)"),
    ("sum", "T.reduce_sum(tile, result, dim=...)"),
    ("argmax", "T.reduce_max, and T.reduce_min of T.if_then_else(x[i, j] == top[i], j, n)"),
    ("argmin", "T.reduce_min, and T.reduce_min of T.if_then_else(x[i, j] == low[i], j, n)"),
    ("mean reduce_mean", "T.reduce_sum(tile, result, dim=...), divided by the extent"),
    ("dot matmul mma", "T.gemm(A, B, C)"),
    ("zeros ones full", "T.alloc_fragment(shape, dtype), and T.clear(tile) or T.fill(tile, value)"),
    ("arange", "the variable of a loop `for i in T.Parallel(n)`"),
    ("load", "A[i], or T.copy(A[i], tile) for a tile"),
    ("store", "A[i] = x, or T.copy(tile, A[i]) for a tile"),
    ("blockIdx program_id", "the names that `with T.Kernel(...) as (bx, by)` binds"),
    ("threadIdx", "T.get_thread_binding()"),
    ("sort topk", "a loop that takes the maximum, T.reduce_max, and leaves it out the next time"),
    ("reduce_argmax", "T.reduce_max, and T.reduce_min of T.if_then_else(x[i] == top[0], i, n)"),
    ("range", "T.serial(n)"),
    ("static_range", "T.unroll(n), or Python's range"),
    ("constexpr", "a parameter of the function around the kernel"),
    ("syncthreads barrier", "T.sync_threads()"),
    ("shared_memory", "T.alloc_shared(shape, dtype)"),
    # Of the original.
    ("PartialFragment", "T.alloc_reducer(..., replication=...), whose layout is inferred"),
    ("annotate_ws_pipeline_depth", "T.Pipelined(..., num_stages=depth)"),
    ("gemm_blockscaled", "T.gemm of tiles that have been multiplied by their scales"),
    ("BaseTileScheduler", "T.PersistentTileScheduler, or T.alloc_var in a class of T.meta_class"),
    ("has_let_value get_let_value", "the name itself, which is its value"),
    (
        "get_tvm_dtype is_float4 is_float4_e2m1fn is_f8f6f4_family",
        "T.dtype(x), which compares with texts",
    ),
    ("break_loop continue_loop", "Python's break and continue"),
)
WORDS: Mapping[str, str] = {name: advice for names, advice in _WORDS for name in names.split()}


class Placeholder:
    """A name that does not exist here: it can be shown, and every other use is an error."""

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def _refuse(self) -> NoReturn:
        raise TileUnsupportedError(
            f"{self._name} does not exist in this implementation", hint=self._advice
        )

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse()

    def __getitem__(self, key: object) -> NoReturn:
        self._refuse()

    def __mro_entries__(self, bases: object) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Placeholder:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self._name}.{name}", self._advice)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._name}: not in this implementation; {self._advice}>"


def absent_names(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has names which are not here.

    Args:
        module: its name as programs import it, a key of :data:`ABSENT`.
    """

    home = sys._getframe(1).f_globals["__name__"]  # the module under its own name

    def __getattr__(name: str) -> Placeholder:  # noqa: N807  # as traces know a missing name
        advice = ABSENT[module].get(name)
        if advice is None:
            message = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules.get(home))
        return Placeholder(f"{module}.{name}", advice)

    return __getattr__
