"""The public names of `duetlink.data.codecs.base`: what a codec of another package is written with."""

from duetlink.data.codecs.base import *  # noqa: F403
from duetlink.data.codecs.base import __all__ as __all__
