"""Verification of what the passes have produced: bounds, views, pipelines."""
