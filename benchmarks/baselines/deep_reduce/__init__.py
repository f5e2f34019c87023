"""Codecs of positions and values that were measured and are not used: baselines of `benchmarks.gradients`.

Their numbers are those that they had in the package, and no other codec gets them.
"""

from benchmarks.baselines.deep_reduce.bloom import BloomP0, BloomP1, BloomP2
from benchmarks.baselines.deep_reduce.curves import DoubleExponentialValues, PolynomialValues
from benchmarks.baselines.deep_reduce.elias_fano import EliasFano
from benchmarks.baselines.deep_reduce.huffman import Huffman
from benchmarks.baselines.deep_reduce.run_length import RunLength
from duetlink.data.codecs.gradients import indices, values


def register() -> None:
    """Let compressors of this process take them by name."""
    for index_codec in (EliasFano(), RunLength(), Huffman(), BloomP0(), BloomP1(), BloomP2()):
        indices.register(index_codec)
    for value_codec in (PolynomialValues(), DoubleExponentialValues()):
        values.register(value_codec)
