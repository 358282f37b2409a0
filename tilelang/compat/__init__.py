"""What programs written for the original TileLang import, where this package is built otherwise.

``finder`` has the table of import paths. The other modules hold what those paths have: adapters of
operands of matrix instructions (``emitters``), host source (``host_text``, ``adapter``), TVM's
names (``tvm``), and modules of a few names.
"""
