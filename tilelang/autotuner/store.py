"""The autotuning cache: results of searches in memory, in the disk cache, and in files to ship.

The key has everything that determines the fastest configuration: the program (its source, and
the first configuration's traced form), all configurations, the arguments, the compile options, the
target, the device and the version of this package. A record is JSON without code, and valid on any
machine with the same device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from tilelang.env import env
from tilelang.errors import TileValueError, path_of, writing
from tilelang.runtime.cache import content_key, default_cache
from tilelang.version import __version__

Record: TypeAlias = dict[str, Any]  # "config", "latency", "ref_latency", "report"
FORMAT = "tilelang tuned results 1"


class Store:
    """Records by key. The memory is that of one process."""

    def __init__(self) -> None:
        self.memory: dict[str, Record] = {}

    def get(self, key: str) -> Record | None:
        """The record of a key, from memory or disk."""
        record = self.memory.get(key) or self.on_disk(key)
        if record is not None:
            self.memory[key] = record
        return record

    @staticmethod
    def on_disk(key: str) -> Record | None:
        """The record of a key in the disk cache."""
        if env.TILELANG_AUTO_TUNING_DISABLE_CACHE:
            return None
        text = default_cache().get_text(key)
        if text is None:
            return None
        record: Record = json.loads(text)
        return record

    def put(self, key: str, record: Record) -> None:
        """Remember a record, on disk too where it is plain data."""
        self.memory[key] = record
        if env.TILELANG_AUTO_TUNING_DISABLE_CACHE:
            return
        text = as_json(record)
        if text is not None:
            default_cache().put_text(key, text)


STORE = Store()


def as_json(record: Record) -> str | None:
    """A record as JSON; None if its configuration would not be read back the same."""
    try:
        text = json.dumps(record)
    except TypeError:
        return None
    return text if json.loads(text)["config"] == record["config"] else None


def save(path: str | Path) -> int:
    """Write the tuned results of this process to a JSON file; return their number.

    These are all results that it has measured or looked up. Another installation can :func:`load`
    them instead of tuning.
    """
    plain = {key: text for key, record in STORE.memory.items() if (text := as_json(record))}
    data = {"format": FORMAT, "results": {key: json.loads(text) for key, text in plain.items()}}
    file = path_of(path, "the file of tuned results")
    with writing(file):
        file.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return len(plain)


def load(path: str | Path) -> int:
    """Read the tuned results of a file that :func:`save` has written; return their number.

    Calls with a stored result take its configuration. Several files may be loaded; the last one
    wins.

    Raises:
        TileValueError: the file has another format.
    """
    file = path_of(path, "the file of tuned results")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TileValueError(
            f"{file.name} contains no tuned results",
            expected="a file that tilelang.autotuner.save(path) has written",
        )
    STORE.memory.update(data["results"])
    return len(data["results"])


def key_of(*parts: str) -> str:
    """The key of a search."""
    return content_key("tuned", __version__, *parts)
