"""Lowering: tile operations and parallel loops to the statements of each GPU thread."""
