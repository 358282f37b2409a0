"""The environment variables of tilelang: the only place that reads ``os.environ``.

``env.CUDA_HOME`` reads its variable at the moment of access, so a change of ``os.environ`` is
seen at once. Importing this module reads nothing.

The one thing that is state and not environment, the cache switch of ``enable_cache()`` and
``disable_cache()``, lives on the ``env`` object and wins over ``TILELANG_DISABLE_CACHE``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilelang.errors import TileValueError, nearest, shown

_TRUE = frozenset(("1", "true", "yes", "on", "y", "t"))
_FALSE = frozenset(("", "0", "false", "no", "off", "n", "f"))
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _text(name: str) -> str | None:
    """The variable, or None when it is unset or empty."""
    return os.environ.get(name) or None


def _wrong(name: str, requirement: str, expected: str, got: object) -> TileValueError:
    return TileValueError(
        f"the environment variable {name} is not {requirement}", expected=expected, got=repr(got)
    )


def _is_on(name: str) -> bool:
    text = os.environ.get(name)
    if text is None:
        return False
    value = text.strip().lower()
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise _wrong(name, "a switch", "0 or 1", text)


def _integer(name: str, default: int) -> int:
    text = _text(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise _wrong(name, "a number", "an integer", text) from None


def _size(name: str, default: int) -> int:
    size = _integer(name, default)
    if size < 0:
        raise _wrong(name, "a size", "MiB, or 0 for no bound", size)
    return size


def _fraction(name: str, default: float) -> float:
    text = _text(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= 1.0:
        raise _wrong(name, "a share", "a number above 0 and up to 1", text)
    return value


def _directory(name: str, default: Callable[[], Path]) -> Path:
    text = _text(name)
    # A compiler runs elsewhere, and a program may change its directory.
    return default() if text is None else Path(text).expanduser().absolute()


def _cache_dir() -> Path:
    return _directory("TILELANG_CACHE_DIR", _own_cache_dir)


def _own_cache_dir() -> Path:
    """A folder of this implementation alone: others of the language keep other things."""
    return _directory("XDG_CACHE_HOME", lambda: Path.home() / ".cache") / "tilelang-python"


def _system_tmp() -> Path:
    import tempfile

    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # nothing can be written; the write reports it
        return Path("/tmp")


def _word(name: str, *choices: str) -> str:
    """One of ``choices``, of which the first is the default."""
    choice = (_text(name) or choices[0]).lower()
    if choice in choices:
        return choice
    raise _wrong(name, "understood", f"{', '.join(choices[:-1])} or {choices[-1]}", choice)


def _lints_off() -> tuple[str, ...]:
    return tuple((_text("TILELANG_LINTS_OFF") or "").replace(",", " ").split())


def _log_level() -> str | None:
    level = _text("TILELANG_LOG_LEVEL")
    if level is None or level.upper() in LOG_LEVELS:
        return None if level is None else level.upper()
    raise _wrong("TILELANG_LOG_LEVEL", "a level", ", ".join(LOG_LEVELS), level)


KERNEL_CHECKS = "kernels"  # what TILELANG_SANITIZE=1 means


def _sanitizers() -> tuple[str, ...]:
    checks = (_text("TILELANG_SANITIZE") or "").replace(",", " ").split()
    # A switch is about the emulator's checks of GPU kernels; names are those of a C compiler.
    checks = [KERNEL_CHECKS if check.lower() in _TRUE else check for check in checks]
    checks = [check for check in checks if check.lower() not in _FALSE]
    if all(check.replace("-", "").isalpha() for check in checks):
        return tuple(checks)
    raise _wrong(
        "TILELANG_SANITIZE",
        "a list of sanitizers",
        "1 (GPU kernels run checked, in the emulator), or names of -fsanitize for "
        'kernels in C, e.g. "address,undefined"',
        _text("TILELANG_SANITIZE"),
    )


# Variable -> how to read it. The names are those programs use as attributes of `env`. The size of
# the cache is in MiB, 0 for no bound; a number of threads of 0 and counts of -1 mean as many as the
# machine has; without a log level the logger stays as it is.
_READERS: dict[str, Callable[[], Any]] = {
    "TILELANG_CACHE_DIR": _cache_dir,
    "TILELANG_CACHE_SIZE": lambda: _size("TILELANG_CACHE_SIZE", 4096),
    "TILELANG_TMP_DIR": lambda: _directory("TILELANG_TMP_DIR", _system_tmp),
    "TILELANG_DISABLE_CACHE": lambda: _is_on("TILELANG_DISABLE_CACHE"),
    "TILELANG_CLEAR_CACHE": lambda: _is_on("TILELANG_CLEAR_CACHE"),
    "TILELANG_DEFAULT_TARGET": lambda: _text("TILELANG_DEFAULT_TARGET") or "auto",
    "TILELANG_EXECUTION_BACKEND": lambda: _text("TILELANG_EXECUTION_BACKEND") or "auto",
    "TILELANG_VERBOSE": lambda: _is_on("TILELANG_VERBOSE"),
    "TILELANG_PRINT_ON_COMPILATION": lambda: _is_on("TILELANG_PRINT_ON_COMPILATION"),
    "TILELANG_PASS_DIFF_OUTPUT": lambda: _text("TILELANG_PASS_DIFF_OUTPUT"),
    "TILELANG_DUMP_IR_AFTER": lambda: _text("TILELANG_DUMP_IR_AFTER"),
    "TILELANG_STOP_AFTER": lambda: _text("TILELANG_STOP_AFTER"),
    "TILELANG_PASS_PROFILE": lambda: _is_on("TILELANG_PASS_PROFILE"),
    "TILELANG_CHECK_PASSES": lambda: _is_on("TILELANG_CHECK_PASSES"),
    "TILELANG_LOG_LEVEL": _log_level,
    "TILELANG_REQUIRES_GRAD": lambda: _word("TILELANG_REQUIRES_GRAD", "warn", "raise", "quiet"),
    "TILELANG_TRACEBACK": lambda: _word("TILELANG_TRACEBACK", "short", "full"),
    "TILELANG_LINTS_OFF": _lints_off,
    "TILELANG_SANITIZE": _sanitizers,
    "TILELANG_NUM_THREADS": lambda: _integer("TILELANG_NUM_THREADS", 0),
    "TILELANG_OPENMP": lambda: _is_on("TILELANG_OPENMP"),
    "TILELANG_AUTO_TUNING_DISABLE_CACHE": lambda: _is_on("TILELANG_AUTO_TUNING_DISABLE_CACHE"),
    "TILELANG_AUTO_TUNING_CPU_UTILITIES": lambda: _fraction(
        "TILELANG_AUTO_TUNING_CPU_UTILITIES", 0.9
    ),
    "TILELANG_AUTO_TUNING_CPU_COUNTS": lambda: _integer("TILELANG_AUTO_TUNING_CPU_COUNTS", -1),
    "TILELANG_AUTO_TUNING_MAX_CPU_COUNT": lambda: _integer(
        "TILELANG_AUTO_TUNING_MAX_CPU_COUNT", -1
    ),
    "CC": lambda: _text("CC"),
    "CXX": lambda: _text("CXX"),
    "CUDA_HOME": lambda: _text("CUDA_HOME") or _text("CUDA_PATH"),
    "ROCM_HOME": lambda: _text("ROCM_HOME") or _text("ROCM_PATH"),
}


def _lookup(name: str) -> Any:
    """The value as programs see it: directories are strings there."""
    value = _READERS[name]()
    return str(value) if isinstance(value, Path) else value


class _Env:
    """Attribute access to the variables, read when accessed, and the cache switch.

    An attribute that a program assigns (``env.TILELANG_CACHE_DIR = d``) hides the variable.
    """

    def __init__(self) -> None:
        self._cache: bool | None = None

    def __getattr__(self, name: str) -> Any:
        if name not in _READERS:
            close = nearest(name, _READERS)
            advice = f"; did you mean {close}?" if close else ""
            raise AttributeError(f"tilelang has no environment variable {name!r}{advice}")
        return _lookup(name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_READERS]

    def variables(self) -> dict[str, str]:
        """A copy of the whole process environment, for a toolchain process."""
        return dict(os.environ)

    def get(self, name: str) -> str | None:
        """A variable of somebody else (``PATH``, ``OMP_NUM_THREADS``), None when unset."""
        return os.environ.get(name)

    def scratch_directories(self) -> Iterator[str]:
        """Directories for temporary files, best first: ``TILELANG_TMP_DIR``, made if need be, the
        system's, and memory."""
        chosen = self.TILELANG_TMP_DIR
        for folder in dict.fromkeys((chosen, str(_system_tmp()), "/dev/shm")):
            if folder == chosen:
                try:
                    os.makedirs(folder, mode=0o700, exist_ok=True)
                except OSError:
                    continue
            if os.path.isdir(folder):
                yield folder

    def apply_log_level(self) -> None:
        """Give the logger ``tilelang`` the level of ``TILELANG_LOG_LEVEL``, unless the program has
        set one."""
        level = self.TILELANG_LOG_LEVEL
        if level is not None:
            import logging

            if logging.getLogger("tilelang").level == logging.NOTSET:
                set_log_level(level)

    def enable_cache(self) -> None:
        """Use the kernel cache from now on, whatever ``TILELANG_DISABLE_CACHE`` says."""
        self._cache = True

    def disable_cache(self) -> None:
        """Stop reading and writing the kernel cache."""
        self._cache = False

    def is_cache_enabled(self) -> bool:
        """Return whether the kernel cache is used."""
        return not self.TILELANG_DISABLE_CACHE if self._cache is None else self._cache

    def get_default_target(self) -> str:
        """``TILELANG_DEFAULT_TARGET``, or ``"auto"``."""
        return str(self.TILELANG_DEFAULT_TARGET)


env = _Env()


def set_log_level(level: int | str) -> None:
    """Set the level of the ``tilelang`` logger: a name such as "INFO", or a number.

    Where the program has configured no logging, messages go to the standard error output.

    Raises:
        TileValueError: neither a number nor the name of a level.
    """
    import logging

    logger = logging.getLogger("tilelang")
    try:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    except (TypeError, ValueError):
        raise TileValueError(
            f"unknown log level {shown(level)}", expected=", ".join(LOG_LEVELS), got=shown(level)
        ) from None
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)


def enable_cache() -> None:
    """Use the kernel cache from now on, whatever ``TILELANG_DISABLE_CACHE`` says."""
    env.enable_cache()


def disable_cache() -> None:
    """Stop reading and writing the kernel cache."""
    env.disable_cache()


def is_cache_enabled() -> bool:
    """Return whether the kernel cache is used."""
    return env.is_cache_enabled()


def __getattr__(name: str) -> Any:
    """``tilelang.env.TILELANG_CACHE_DIR`` and so on, as programs spell them."""
    if name in _READERS:
        return getattr(env, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
