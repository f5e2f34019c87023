"""Public names of the codecs, which are in `duetlink.data.codecs`. A codec turns an array into fewer bytes.

import duetlink.codecs as codecs

small = codecs.compress(b"..." * 1000, codec="zstd", level=3)
codecs.decompress(small)
"""

from duetlink.data.codecs import *  # noqa: F403
from duetlink.data.codecs import __all__ as __all__
