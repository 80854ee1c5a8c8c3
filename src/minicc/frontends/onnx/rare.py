"""The families of operators that few models have; importing one enters its operators."""

from minicc.frontends.onnx import (
    classical,
    host_image,
    host_regions,
    microsoft,
    ops_experimental,
    ops_loss,
    ops_signal,
    ops_training,
)

FAMILIES = (
    classical,
    host_image,
    host_regions,
    microsoft,
    ops_experimental,
    ops_loss,
    ops_signal,
    ops_training,
)
