"""The frontend: annotations, rewriting of Python, tracing.

``source`` finds a function's syntax tree, ``ast`` rewrites it into calls on a ``scope``, which
drives the ``ir_builder``; ``trace`` is the boundary that gives errors their place; ``template``
makes functions from decorated ones; ``annot`` reads parameters and call arguments; ``frames``
are the bases of ``with`` and ``for`` objects, ``kernel`` and ``loop`` have those of the language.
"""

from __future__ import annotations
