"""Stands where Python looks for `onnxruntime`, and puts `minicc.onnxruntime` in its place."""

from minicc.onnxruntime.stand_in import put_in_place

put_in_place()
