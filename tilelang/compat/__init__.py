"""Import paths of programs written for the original TileLang that differ from this package.

``finder`` has the table of import paths. The other modules define their contents: adapters of
operands of matrix instructions (``emitters``), host source (``host_text``, ``adapter``), TVM's
names (``tvm``), and modules of a few names.
"""
