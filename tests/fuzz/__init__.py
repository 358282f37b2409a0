"""Random whole tile programs: the interpreter and the CPU back end must agree."""
