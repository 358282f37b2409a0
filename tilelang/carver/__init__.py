"""Import paths that programs use for facts of the machine."""
