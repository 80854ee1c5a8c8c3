"""The traced NumPy front end: a Python function on arrays becomes a graph module.

The function runs once, on tracers, with its NumPy replaced (`rewire`); each NumPy call records ops
(`dispatch`, and the families `ufuncs`, `creation`, `reductions`, `movement`, `joining`, `indexing`,
`contraction`). Python's own control flow is followed as it runs, so loops unroll; what depends on
the elements of an array is refused at the user's line. Calls that have no traced argument are
NumPy's own. `print` prints tracers, while tracing.

For a just-in-time compiler:

    parameters = Parameters(f)                     # once
    values = parameters.bind(args, kwargs)
    key, arrays = parameters.key(values)           # cheap, hashable; arrays as they were given
    traced = cache.get(key)
    if traced is None or not traced.environment.holds():
        why = parameters.explain(old_key, key)     # or traced.environment.explain()
        traced = trace_values(f, parameters, values)
    result = traced.rebuild(run(traced.module, arrays))

Arrays are handed over as given: the caller makes them dense and of native byte order. A call with
tracers among its arguments (`has_tracers`) comes from within another trace: call `f` itself then.
An object with `__wrapped__` is traced through, so a jitted function should have it.

Mirrors: Dynamo (guards, captured values), JAX's tracers, NumPy's NEPs 13, 18 and 47. Differs from
both: the graph has no Python in it, and a function that can't be traced as a whole is refused.
"""

from minicc.frontends.trace import (
    contraction,
    creation,
    indexing,
    joining,
    movement,
    reductions,
    ufuncs,
)
from minicc.frontends.trace.guards import Environment, Parameters, has_tracers
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.tracing import Traced, trace, trace_call, trace_values

FAMILIES = (contraction, creation, indexing, joining, movement, reductions, ufuncs)

__all__ = [
    "FAMILIES",
    "Environment",
    "Parameters",
    "Traced",
    "Tracer",
    "has_tracers",
    "trace",
    "trace_call",
    "trace_values",
]
