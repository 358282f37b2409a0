"""The intermediate representation: data types, expressions, statements, tile operations.

Modules, bottom up: ``dtypes`` and ``floats`` (types and their bits), ``tables`` (operators and
intrinsics), ``expr``, ``buffer``, ``stmt`` and
``schedule`` (the nodes), ``fold`` (building with promotion and
constant folding), ``visitor`` (rewriting), ``bounds`` and ``simplify``, ``printer`` (script form),
``canonical`` (text for cache keys), ``legal`` (what may appear at which level), ``emitter`` (the
trace in progress). Nodes call what folds and prints them through ``later``.
"""
