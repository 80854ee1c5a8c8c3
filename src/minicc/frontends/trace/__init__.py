"""The traced NumPy front end: a Python function on arrays becomes a graph module.

The function runs once, on tracers, with its NumPy replaced (`rewire`); each NumPy call records ops
(`dispatch`, and the families in `functions`, with `indexing`, `memory` and `views`). Calls that
have no traced argument are NumPy's own.

Python's own control flow is followed as it runs, but a `for` whose rounds all do the same is a loop
of the graph (`loops`); others unroll. Where control flow depends on the elements of an array, the
graph so far is run, the value is read, and tracing goes on (`breaks`); so it does around what NumPy
itself has to compute (`host`). What a call did is remembered as a path of segments (`paths`), and a
`while` loop as a loop of them (`states`). A trace that grows too long is given up (`GivenUp`): the
caller calls the function itself. A trace that is given no `Path` runs nothing, and refuses such
functions at the user's line.

For a just-in-time compiler:

    parameters = Parameters(f)                     # once
    values = parameters.bind(args, kwargs)
    key, arrays, numbers = parameters.key(values)  # cheap, hashable; arrays as they were given
    traced, given = cache.get(key)
    inputs = given.of(numbers)                     # None where a guard does not hold
    if traced is None or inputs is None or not traced.environment.holds():
        why = parameters.explain(old_key, key)     # or traced.environment.explain()
        given = Given(moving, numbers)             # which numbers may be no constants
        traced = trace_values(f, parameters, values, Path(tree, arrays, compile), given)
    if traced.module is not None:                  # no breaks: one graph
        result = traced.rebuild(run(traced.module, [*arrays, *inputs]), arrays)
    else:                                          # `traced.result`, and from the next call on
        result = replay(tree.root, arrays, tree.after, inputs)

Arrays are handed over as given: the caller makes them dense and of native byte order. A call with
tracers among its arguments (`Within`) comes from within another trace: call `f` itself then.
An object with `__wrapped__` is traced through, so a jitted function should have it.
"""

from minicc.frontends.trace import indexing, memory, powers, views
from minicc.frontends.trace.breaks import Diverged, Path, Rehearsal, SizedPath, Tree
from minicc.frontends.trace.functions import (
    bins,
    composed,
    contraction,
    creation,
    elimination,
    joining,
    movement,
    parts,
    reductions,
    scans,
    sorting,
    statistics,
    transforms,
    ufunc_methods,
    ufuncs,
    writes,
)
from minicc.frontends.trace.given import Given
from minicc.frontends.trace.guards import Environment, Parameters
from minicc.frontends.trace.loops.choices import work
from minicc.frontends.trace.paths import Missed, Node, replay
from minicc.frontends.trace.pytree import Within, copied
from minicc.frontends.trace.restarts import Counted, GivenUp
from minicc.frontends.trace.sizes import Sizes, Unsized, require_fast
from minicc.frontends.trace.tracer import Tracer
from minicc.frontends.trace.tracing import (
    Traced,
    said_by,
    told,
    trace,
    trace_call,
    trace_values,
)

FAMILIES = (
    bins, composed, contraction, creation, elimination, indexing, joining, memory, movement, parts,
    powers, reductions, scans, sorting, statistics, transforms, ufunc_methods, ufuncs, views,
    writes,
)  # fmt: skip

__all__ = [
    "FAMILIES",
    "Counted",
    "Diverged",
    "Environment",
    "Given",
    "GivenUp",
    "Missed",
    "Node",
    "Parameters",
    "Path",
    "Rehearsal",
    "SizedPath",
    "Sizes",
    "Traced",
    "Tracer",
    "Tree",
    "Unsized",
    "Within",
    "copied",
    "replay",
    "require_fast",
    "said_by",
    "told",
    "trace",
    "trace_call",
    "trace_values",
    "work",
]
