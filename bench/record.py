"""Results as files: what ``--json`` writes, with the command, machine, date, commit and version.

``docs/data/benchmarks`` has tables with the same head; ``scripts/benchmarks_page.py`` shows them.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def command() -> str:
    """The command line of this process, without the file that it writes."""
    words = [os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]]
    if "--json" in words:
        at = words.index("--json")
        del words[at : at + 2]
    return " ".join(["python", *words])


def machine() -> str:
    """The processor, and the GPUs that are in use."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    torch = sys.modules.get("torch")
    gpus: list[str] = []
    if torch is not None and torch.cuda.is_available():
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return ", ".join([f"{os.cpu_count()} cores of {name}", *gpus])


def commit() -> str:
    """The commit of the checkout; a plus where files have changed since."""
    words = ["git", "-C", str(ROOT)]
    try:
        output = subprocess.run([*words, "rev-parse", "--short", "HEAD"], capture_output=True,
                               text=True, check=True)  # fmt: skip
        changed = subprocess.run([*words, "status", "--porcelain", "-uno"], capture_output=True,
                                 text=True, check=True)  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return output.stdout.strip() + "+" * bool(changed.stdout.strip())


def version() -> str:
    """The version of this checkout, read and not imported: scripts measure other ones, too."""
    text = (ROOT / "tilelang" / "version.py").read_text(encoding="utf-8")
    return re.findall(r'__version__ = "(.+)"', text)[0]


def record(results: Any) -> dict[str, Any]:
    """``results`` below the head that every file of figures has."""
    return {
        "commands": [command()],
        "machine": machine(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": commit(),
        "version": version(),
        "results": results,
    }


def write(path: str | Path, results: Any) -> None:
    """Write ``results`` as JSON with their head."""
    text = json.dumps(record(results), indent=1, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")


def read(path: str | Path) -> Any:
    """The results of a file that ``write`` wrote."""
    return json.loads(Path(path).read_text(encoding="utf-8"))["results"]
