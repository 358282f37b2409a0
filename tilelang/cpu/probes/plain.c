// Any working compiler.
int tl_probe(int x) { return x + 1; }
