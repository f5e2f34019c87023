"""Choose the codec, level, chunk size and number of encoding threads for each chunk of a transfer.

Pure: no I/O. Times are passed in as values of one monotonic clock.

The nouns:

    choice     one codec at one level, such as zstd at level 3; "raw" sends a chunk as it is
    element    the type of the items of a chunk, such as float32 (`codecs/element.py`)
    kind       a class of data by how well it compresses: noise, dense, redundant, sparse (`sample.py`)
    goodput    bytes per second that the path carries, as measured while it held the sender
    prior      the speed and ratio that a codec usually has, used until it is measured here
    plan       the choice, chunk size and number of encoding threads that are in force
    decision   one change of plan, with its reason, for the user and the peer to read
    outcome    the rate that a decision really brought; a decision that made it slower is reverted

Example, with the priors: trained weights in float32 are of kind dense. `pcodec` shrinks them to 0.83 of their
size at 154 MB/s of encoding per thread. On a path that carries 10 MB/s, its rate is

    min(10 / 0.83, 154, 1070) = 12.0 MB/s of weights,

and sending raw gives 10 MB/s: pcodec is chosen. On a path that carries 1000 MB/s, four processors are the
slowest part with pcodec (368 MB/s), and the weights are sent raw.
"""

from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.codec_controller import CodecController
from duetlink.data.tuning.compression import Compression
from duetlink.data.tuning.decision import Decision, History, Plan
from duetlink.data.tuning.rate_cap import RateCap
from duetlink.data.tuning.tuner import Tuner

__all__ = ["Choice", "CodecController", "Compression", "Decision", "History", "Plan", "RateCap", "Tuner"]
