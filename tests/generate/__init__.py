"""Random valid ONNX models, hostile ones, and what every engine makes of them.

`families` is the table of what can be drawn: functions that add nodes to a `Draft`. `oracle`
compares minicc in all its forms with the ONNX reference and ONNX Runtime, `faults` names what
those two do wrong, `shrink` makes a failing model small, and `hostile` damages valid ones.
`python -m tests.generate` runs all of it; `make fuzz MINUTES=10` calls that.
"""
