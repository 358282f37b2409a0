"""Synchronization between the threads of a block: hazards, barriers, waits."""
