"""Toolchain helpers that programs import by these paths."""
