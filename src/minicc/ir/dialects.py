"""All dialects, imported so that their ops are registered.

The parser needs to know their names.

Mirrors: MLIR's registerAllDialects.
"""

from minicc.ir import arith, graph, kernel, program, structured

DIALECTS = (graph, structured, kernel, program, arith)
