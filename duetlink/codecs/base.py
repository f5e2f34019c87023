"""Public names of `duetlink.data.codecs.base`: the base classes for a codec in another package."""

from duetlink.data.codecs.base import *  # noqa: F403
from duetlink.data.codecs.base import __all__ as __all__
