"""Order between the threads of a block: groups of threads, hazards, barriers."""
