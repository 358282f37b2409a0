"""The code cells of the lazy-JIT notebook, word for word but for the device: ``notebook.txt``, where
``# %%`` begins a cell.

``CELLS`` has (title, source) in order; ``SHOWN`` has what the notebook shows under a cell.
"""

from __future__ import annotations

from pathlib import Path

_TEXT = Path(__file__).with_name("notebook.txt").read_text(encoding="utf-8")
_PARTS = [part.partition("\n")[::2] for part in _TEXT.split("# %% ")[1:]]
_OUTPUT = "shown: "

CELLS = tuple((title, text) for title, text in _PARTS if not title.startswith(_OUTPUT))
SHOWN = {title.removeprefix(_OUTPUT): text for title, text in _PARTS if title.startswith(_OUTPUT)}
