"""Cleanup of thread programs: loop-invariant code motion, strength reduction and peepholes."""
