"""The public names of `duetlink.data.codecs`, which is where they are: arrays and bytes to fewer bytes.

import duetlink.codecs as codecs

small = codecs.compress(b"..." * 1000, codec="zstd", level=3)
codecs.decompress(small)
"""

from duetlink.data.codecs import *  # noqa: F403
from duetlink.data.codecs import __all__ as __all__
