"""Random NumPy functions, and whether `minicc.jit` makes NumPy's results of them.

`templates` are the texts that lines are made of, `growth` adds those that NumPy runs, `program` is
what is grown, shrunk and printed, `oracle` compares each call with NumPy's.

Mirrors: Csmith's growth of programs by what their state allows; NumPy itself is the oracle.
"""
