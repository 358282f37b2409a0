"""Shared-memory planning: live ranges and the addresses of buffers."""
