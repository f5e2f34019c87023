"""The public names of `duetlink.data.codecs.gradients`: gradients in few bytes."""

from duetlink.data.codecs.gradients import *  # noqa: F403
from duetlink.data.codecs.gradients import __all__ as __all__
