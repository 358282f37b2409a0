"""The CPU back end: C with vector extensions, one core per block."""
