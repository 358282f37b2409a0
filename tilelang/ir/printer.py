"""IR printer: functions and statements as Python text in the language itself.

The text is stable and deterministic: it depends on the program alone, not on addresses or on what
was printed before. ``repr`` of every node ends here.
"""

from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.access import tensor_boxes
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Call, Const, Expr, Var, const
from tilelang.ir.launch_schedule import text_of
from tilelang.ir.print_expr import ExprPrinter, Names, quoted, shape_vars
from tilelang.ir.print_tile import tile_text

_INDENT = "    "
_AXES = "xyz"
_LOOP_WORDS = {
    "serial": "T.serial",
    "unroll": "T.unroll",
    "vectorized": "T.vectorized",
    "pipelined": "T.Pipelined",
}
_EXIT_WORDS = {S.Break: "break", S.Continue: "continue", S.ThreadReturn: "T.thread_return()"}
# Reasons of passes are for reports only; a printed kernel has the threads that its text shows.
_SILENT = ("notes", "fusion_note", "default_threads")
# Hints of a launch that have a function of their own; the others go into one T.block_attr.
_ANNOTATION_WORDS = {"layout_map": "T.annotate_layout", "safe_value": "T.annotate_safe_value"}


def stmt_text(stmt: S.Stmt) -> str:
    """``stmt`` with everything nested in it, as lines of Python text without final newline."""
    printer = _Printer()
    printer.seq(stmt)
    return "\n".join(printer.lines)


def func_text(func: S.PrimFunc) -> str:
    """The whole function, with the header comment, without final newline."""
    printer = _Printer()
    printer.func(func)
    return "\n".join(printer.lines)


class _Printer:
    def __init__(self) -> None:
        self.names = Names()
        self.text = ExprPrinter(self.names)
        self.lines: list[str] = []
        self.depth = 0
        self.hoisted: set[Buffer] = set()  # allocated at the top of their kernel

    # -- lines and blocks ------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.lines.append(_INDENT * self.depth + text)

    def block(self, body: S.Stmt | None) -> None:
        """An indented block with its own names."""
        self.depth += 1
        self.names.open()
        self.body(body)
        self.names.close()
        self.depth -= 1

    def body(self, body: S.Stmt | None) -> None:
        """Statements of a block; one that ends in a definition gets an empty statement after it."""
        stmts = () if body is None else S.flat(body)
        self.stmts(stmts)
        if not stmts or isinstance(stmts[-1], (S.Let, S.View)) or self._is_hoisted(stmts[-1]):
            self.line("T.evaluate(0)")

    def _is_hoisted(self, stmt: S.Stmt) -> bool:
        return (
            isinstance(stmt, S.Alloc)
            and stmt.buffer in self.hoisted
            and (stmt.init is None or isinstance(stmt.init, Const))
        )

    def seq(self, stmt: S.Stmt) -> None:
        """``stmt``, or the statements of a sequence, at the current depth."""
        self.stmts(S.flat(stmt))

    def stmts(self, stmts: tuple[S.Stmt, ...]) -> None:
        """Statements in order."""
        for number, stmt in enumerate(stmts):
            if isinstance(stmt, S.Launch):
                self.launch(stmt, last=number == len(stmts) - 1)
            else:
                self.stmt(stmt)

    # -- functions -------------------------------------------------------------------------------
    def func(self, func: S.PrimFunc) -> None:
        """Header, parameters, tensors, body."""
        names = self.names
        heads = []
        handles: list[tuple[Buffer, str]] = []
        for param in func.params:
            if isinstance(param, Buffer):
                handles.append((param, names.unique(f"{names.define(param, 'buf')}_handle")))
                heads.append(f"{handles[-1][1]}: T.handle")
            else:
                heads.append(f"{names.define(param)}: T.{param.dtype}")
        self.line("# import tilelang.language as T")
        self.line("")
        self.line("@T.prim_func")
        self.line(f"def {func.name or 'main'}({', '.join(heads)}):")
        self.depth += 1
        self.func_attrs(func)
        for buffer, handle in handles:
            self.free_shape_vars(buffer)
            self.line(f"{names.of(buffer)} = {self.match_buffer(buffer, handle)}")
        self.line('# with T.block("root"):')
        self.body(func.body)
        self.depth -= 1

    def func_attrs(self, func: S.PrimFunc) -> None:
        """Attributes of the function and which parameters are its results."""
        pairs = [pair for pair in func.attrs if pair[1] is not None]
        if func.outputs:
            pairs.append(("outputs", func.outputs))
        if pairs:
            self.line(f"T.func_attr({self.text.mapping(pairs)})")

    def free_shape_vars(self, buffer: Buffer) -> None:
        """``K = T.int32()`` for symbols that no parameter gives."""
        for var in shape_vars(buffer):
            if not self.names.knows(var):
                self.line(f"{self.names.define(var)} = T.{var.dtype}()")

    def match_buffer(self, buffer: Buffer, handle: str) -> str:
        """The tensor behind a handle; float32 goes without saying."""
        kind = "" if buffer.dtype == "float32" else f', "{buffer.dtype}"'
        strides = self.text.value(buffer.stride_list())
        return (
            f"T.match_buffer({handle}, {self.text.value(buffer.shape)}{kind}, "
            f"strides={strides}{self.placement(buffer)})"
        )

    def placement(self, buffer: Buffer) -> str:
        """Offset and scope where they are not the usual ones."""
        offset = buffer.elem_offset
        text = ""
        if isinstance(offset, Expr) or offset != 0:
            text += f", elem_offset={self.text.value(offset)}"
        if buffer.storage != "global":
            text += f', scope="{buffer.storage}"'
        return text

    # -- launches ----------------------------------------------------------------------------------
    def launch(self, launch: S.Launch, last: bool) -> None:
        """The launch axes and the block; one that is not the last ends with its indentation."""
        axes = [
            (var, f"blockIdx.{axis}", self.text.expr(extent))
            for var, axis, extent in zip(launch.block_vars, _AXES, launch.grid)
        ]
        axes += [
            (var, f"threadIdx.{axis}", str(count))
            for var, axis, count in zip(launch.thread_vars, _AXES, launch.threads)
        ]
        if not last:
            self.line("with T.kernel():")
            self.depth += 1
        self.names.open()
        for var, axis, extent in axes:
            self.line(f'{self.names.define(var)} = T.launch_thread("{axis}", {extent})')
        self.line('with T.block("tilelang_root"):')
        self.depth += 1
        self.names.open()
        self.block_head(launch)
        self.body(launch.body)
        self.names.close()
        self.depth -= 1
        self.names.close()
        if not last:
            self.depth -= 1

    def block_head(self, launch: S.Launch) -> None:
        """Print the reads and writes of the block, its attributes and its allocations."""
        allocs = [stmt for stmt in S.flat(launch.body) if isinstance(stmt, S.Alloc)]
        hoisted = {stmt.buffer: stmt for stmt in allocs}
        accessed = tensor_boxes(launch.body)
        early: set[Buffer] = set()
        for name, where in (("T.reads", accessed.reads), ("T.writes", accessed.writes)):
            boxes = accessed.boxes(where)
            for region in boxes:
                for expr in region.region_exprs():
                    self.early(expr, hoisted, early)
            self.line(f"{name}({', '.join(self.text.access(region) for region in boxes)})")
        inits = [s for s in allocs if isinstance(s.init, Const)]
        for stmt in inits:
            self.declare(stmt.buffer, early)
        if inits:
            pairs = ", ".join(
                f"{self.names.of(s.buffer)}.data: {self.text.value(s.init)}" for s in inits
            )
            self.line(f'T.block_attr({{"tl.local_var_init": {{{pairs}}}}})')
        for stmt in allocs:
            self.hoisted.add(stmt.buffer)
            self.line(self.alloc(stmt.buffer, stmt.buffer in early))
        self.annotations(launch)

    def early(self, expr: Expr, hoisted: dict[Buffer, S.Alloc], early: set[Buffer]) -> None:
        """Declare buffers that a line above their allocation mentions."""
        from tilelang.ir.visitor import postorder

        for node in postorder(expr):
            buffer = getattr(node, "buffer", None)
            if isinstance(buffer, Buffer) and buffer in hoisted:
                self.declare(buffer, early)

    def declare(self, buffer: Buffer, early: set[Buffer]) -> None:
        """Name a buffer before its allocation."""
        if buffer in early:
            return
        early.add(buffer)
        name = self.names.define(buffer, "buf")
        self.line(
            f"{name} = T.Buffer({self.text.value(buffer.shape)}, "
            f'"{buffer.dtype}"{self.placement(buffer)})'
        )

    def annotations(self, launch: S.Launch) -> None:
        """Annotations of the kernel, each under its function."""
        rest = []
        for key, value in launch.hints.stated:
            if value is None or key in _SILENT:
                continue
            if key in _ANNOTATION_WORDS:
                self.line(f"{_ANNOTATION_WORDS[key]}({self.text.mapping(value)})")
            elif key == "swizzle" and isinstance(value, tuple) and len(value) == 2:
                self.line(f"T.use_swizzle({value[0]!r}, order={self.text.value(value[1])})")
            else:
                rest.append((key, value))
        if rest:
            self.line(f"T.block_attr({self.text.mapping(rest)})")
        if launch.schedule is not None and launch.schedule.price is None:
            self.line(f"T.annotate_schedule({text_of(launch.schedule.stated())})")

    def alloc(self, buffer: Buffer, declared: bool = False) -> str:
        """The allocation of ``buffer`` as a line."""
        name = self.names.define(buffer, "buf")
        data = f", data={name}.data" if declared else ""
        strides = "" if buffer.strides is None else f", strides={self.text.value(buffer.strides)}"
        attrs = f", attrs={self.text.mapping(buffer.attrs.stated)}" if buffer.attrs else ""
        return (
            f"{name} = T.alloc_buffer({self.text.value(buffer.shape)}, "
            f'"{buffer.dtype}"{data}{strides}{self.placement(buffer)}{attrs})'
        )

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: S.Stmt) -> None:
        """One statement."""
        text = self.text
        if isinstance(stmt, (S.Seq, S.Launch)):
            self.stmts(S.flat(stmt))
        elif isinstance(stmt, S.Let):
            value = text.expr(stmt.value)
            self.line(f"{self.names.define(stmt.var)}: T.{stmt.var.dtype} = {value}")
        elif isinstance(stmt, S.Alloc):
            self.alloc_stmt(stmt)
        elif isinstance(stmt, S.View):
            self.view(stmt)
        elif isinstance(stmt, S.Store):
            target, stored = self.element(stmt.buffer, stmt.indices), stmt.value
            if isinstance(stored, Call) and stored.atom.moves == "stg":
                self.line(f"T.{stored.op}({target}, {text.expr(stored.args[0])})")
            else:
                self.line(f"{target} = {text.expr(stored)}")
        elif isinstance(stmt, S.ReducerUpdate):
            target = self.element(stmt.buffer, stmt.indices)
            self.line(f'T.reducer_update({target}, {text.expr(stmt.value)}, "{stmt.op}")')
        elif isinstance(stmt, S.Eval):
            call = text.expr(stmt.value)
            self.line(call if isinstance(stmt.value, Call) else f"T.evaluate({call})")
        elif isinstance(stmt, S.Assert):
            cond = text.expr(stmt.cond)
            message = f", {quoted(stmt.message)}" if stmt.message else ""
            self.line(f"T.assume({cond})" if stmt.assumed else f"assert {cond}{message}")
        elif type(stmt) in _EXIT_WORDS:
            self.line(_EXIT_WORDS[type(stmt)])
        elif isinstance(stmt, S.TileOp):
            self.line(tile_text(stmt, text))
        elif isinstance(stmt, H.PipelineStep):
            ahead = f", ahead={stmt.ahead}" if isinstance(stmt, H.Wait) else ""
            arguments = f"{text.expr(stmt.pipe)}, {text.expr(stmt.number)}{ahead}"
            self.line(f"T.{type(stmt).__name__.lower()}({arguments})")
        elif isinstance(stmt, H.Fence):
            self.line(f"T.fence({quoted(stmt.source)}, {quoted(stmt.target)})")
        elif isinstance(stmt, H.WaitProducts):
            sums = "".join(f", {text.region(region)}" for region in stmt.sums)
            self.line(f"T.wait_products({stmt.newer}{sums})")
        else:
            self.compound(stmt)

    def compound(self, stmt: S.Stmt) -> None:
        """A statement with blocks."""
        text = self.text
        if isinstance(stmt, S.For):
            self.loop(stmt)
        elif isinstance(stmt, S.Parallel):
            self.parallel(stmt)
        elif isinstance(stmt, S.While):
            self.line(f"while {text.expr(stmt.cond)}:")
            self.block(stmt.body)
        elif isinstance(stmt, S.If):
            self.line(f"if {text.expr(stmt.cond)}:")
            self.block(stmt.then)
            if stmt.orelse is not None:
                self.line("else:")
                self.block(stmt.orelse)
        elif isinstance(stmt, S.Attr):
            node, value = text.value(stmt.node), text.value(stmt.value)
            self.line(f"with T.attr({node}, {quoted(stmt.key)}, {value}):")
            self.block(stmt.body)
        elif isinstance(stmt, H.Pipeline):
            self.pipeline(stmt)
        elif isinstance(stmt, H.Run):
            self.run(stmt)
        elif isinstance(stmt, H.Roles):
            self.line("with T.roles():")
            self.block(S.Seq(stmts=stmt.branches))
        elif isinstance(stmt, H.Role):
            limit = "" if stmt.registers is None else f", registers={stmt.registers}"
            limit += ", elected=True" if stmt.elected else ""
            self.line(f"with T.role({quoted(stmt.name)}, {stmt.first}, {stmt.count}{limit}):")
            self.block(stmt.body)
        else:
            raise InternalError(f"the printer does not know the statement {type(stmt).__name__}")

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """``buffer[i, j]``."""
        inner = ", ".join(self.text.value(index) for index in indices)
        return f"{self.names.of(buffer)}[{inner}]"

    def alloc_stmt(self, stmt: S.Alloc) -> None:
        """An allocation in place, or its rest at the top of the kernel."""
        if stmt.buffer not in self.hoisted:
            self.line(self.alloc(stmt.buffer))
        elif stmt.init is None or isinstance(stmt.init, Const):
            return
        if stmt.init is not None:
            zeros = tuple(const(0) for _ in stmt.buffer.shape)
            self.line(f"{self.element(stmt.buffer, zeros)} = {self.text.expr(stmt.init)}")

    def view(self, stmt: S.View) -> None:
        """Another shape of memory that exists."""
        buffer, text = stmt.buffer, self.text
        if stmt.source is not None:
            function, first = "T.make_tensor", f"{text.expr(stmt.source)}, "
            data = ""
        else:
            function, first, data = "T.Buffer", "", f", data={self.names.data(buffer.data)}"
        name = self.names.define(buffer, "buf")
        strides = "" if buffer.strides is None else f", strides={text.value(buffer.strides)}"
        self.line(
            f"{name} = {function}({first}{text.value(buffer.shape)}, "
            f'"{buffer.dtype}"{data}{strides}{self.placement(buffer)})'
        )

    def loop(self, stmt: S.For) -> None:
        """``for`` of every kind; ``range(n)`` is written where nothing else has to be said."""
        text = self.text
        start, stop, step = text.expr(stmt.start), text.expr(stmt.stop), text.expr(stmt.step)
        simple = start == "0" and step == "1"
        args = [stop] if simple else [start, stop] if step == "1" else [start, stop, step]
        keyword = _LOOP_WORDS.get(stmt.kind)
        if keyword is None:
            raise InternalError(f"unknown loop kind {stmt.kind!r}", loc=stmt.loc)
        if stmt.kind == "serial" and simple and not stmt.hints:
            keyword = "range"
        args += list(text.options(stmt.hints.stated))
        self.header((stmt.var,), f"{keyword}({', '.join(args)})", stmt.body)

    def parallel(self, stmt: S.Parallel) -> None:
        """``for i, j in T.Parallel(..)``."""
        args = [self.text.value(extent) for extent in stmt.extents]
        if stmt.loop_layout is not None:
            args.append(f"loop_layout={self.text.value(stmt.loop_layout)}")
        args += list(self.text.options(stmt.hints.stated))
        self.header(stmt.vars, f"T.Parallel({', '.join(args)})", stmt.body)

    def header(self, loop_vars: tuple[Var, ...], domain: str, body: S.Stmt) -> None:
        """A loop whose variables end with it."""
        self.names.open()
        names = ", ".join(self.names.define(var) for var in loop_vars)
        self.line(f"for {names} in {domain}:")
        self.block(body)
        self.names.close()

    def pipeline(self, stmt: H.Pipeline) -> None:
        """A pipeline, whose name ends with it."""
        tiles = self.text.value(tuple(stmt.tiles))
        self.names.open()
        name = self.names.define(stmt.pipe)
        proxy = "" if stmt.proxy == "generic" else f", proxy={quoted(stmt.proxy)}"
        fields = f"{stmt.stages}, {tiles}, {quoted(stmt.mechanism)}{proxy}"
        self.line(f"with T.pipeline({fields}) as {name}:")
        self.block(stmt.body)
        self.names.close()

    def run(self, stmt: H.Run) -> None:
        """A run of a pipeline; the number of its first iteration is only valid in it."""
        fields = f"{self.text.expr(stmt.pipe)}, {self.text.expr(stmt.count)}"
        self.names.open()
        self.line(f"with T.run({fields}) as {self.names.define(stmt.first)}:")
        self.block(stmt.body)
        self.names.close()
