"""All dialects, imported so that their ops are registered.

The parser needs to know their names.
"""

from minicc.ir import arith, graph, kernel, program, structured, words

DIALECTS = (graph, structured, kernel, program, arith, words)
