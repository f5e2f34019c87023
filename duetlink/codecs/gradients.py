"""The public names of `duetlink.data.codecs.gradients`: gradients in few bytes."""

from duetlink.data.codecs.gradients import (
    Dgc,
    ErrorFeedback,
    GradientCompressor,
    PowerSgd,
    Quantised,
    RandomK,
    TensorState,
    TopK,
)

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
