"""Passes for targets on which one core runs a whole block: threads become loops."""
