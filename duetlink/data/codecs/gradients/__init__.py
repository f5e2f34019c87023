"""Compress gradients, and remember what was left out for the next one.

    compressor = gradients.TopK(density=0.01, value="block8")
    for name, gradient in ...:
        send(compressor.compress(gradient, name))  # the receiver: duetlink.codecs.decode

Compressors hold state, per tensor name (compressor.py); `state.to_bytes(compressor.state_dict())` saves it
over a restart. All are lossy, and are chosen only by name. Each method is one file; `coding.py` writes
positions and values, by the codecs in `indices` and `values`.
"""

from duetlink.data.codecs.gradients.compressor import ErrorFeedback, GradientCompressor, TensorState
from duetlink.data.codecs.gradients.dgc import Dgc
from duetlink.data.codecs.gradients.power_sgd import PowerSgd
from duetlink.data.codecs.gradients.quantised import Quantised
from duetlink.data.codecs.gradients.random_k import RandomK
from duetlink.data.codecs.gradients.top_k import TopK

__all__ = [
    "Dgc",
    "ErrorFeedback",
    "GradientCompressor",
    "PowerSgd",
    "Quantised",
    "RandomK",
    "TensorState",
    "TopK",
]
