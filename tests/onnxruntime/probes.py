"""All probes by name."""

from tests.onnxruntime import probe_options, probe_runs, probe_values
from tests.onnxruntime.probing import PROBES, outcome

__all__ = ["PROBES", "outcome", "probe_options", "probe_runs", "probe_values"]
