"""Choose the gradient compressor for the codec that the settings name."""

from __future__ import annotations

from duetlink.data.codecs.gradients.compressor import GradientCompressor
from duetlink.data.codecs.gradients.power_sgd import LowRank, PowerSgd
from duetlink.data.codecs.gradients.quantised import Quantised
from duetlink.data.codecs.gradients.random_k import RandomK, RandomSubset
from duetlink.data.codecs.gradients.sparse_gradient import VALUE_CODECS, SparseGradient
from duetlink.data.codecs.gradients.top_k import TopK
from duetlink.data.codecs.lossy.natural import Natural


def compressor(codec: str | None = None, level: int | None = None) -> GradientCompressor:
    """Return the compressor that writes chunks of that codec, at `level` or its default level.

    Without a codec it is top-k at a density of 0.1 with values rounded to powers of two at random
    ("natural"): the smallest that kept the accuracy of dense gradients in benchmarks/gradients.py, where it
    chose from all tensors at once.

    Raises:
        UnknownCodec: it is not installed.
        LocalProtocolError: it does not accept float32.
    """
    if codec is None:
        return TopK(value=Natural.name)
    if codec == SparseGradient.name:
        return TopK(value=VALUE_CODECS[SparseGradient.level if level is None else level])
    if codec == RandomSubset.name:
        return RandomK(density=0.5 ** (RandomSubset.level if level is None else level))
    if codec == LowRank.name:
        return PowerSgd(rank=LowRank.level if level is None else level)
    return Quantised(codec, level)
