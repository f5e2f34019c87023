"""duetlink as a backend of torch.distributed: `import duetlink.groups.torch`, then

    torch.distributed.init_process_group("duetlink", ...)

Members find each other through torch's own store (`env://`, `tcp://`, `file://`), so they trust that store:
whoever can write to it can take a member's place. What they then say to each other goes over duetlink's
links, encrypted and by whatever path there is.
"""

import torch.distributed as _dist

from duetlink.groups.torch.pickles import guard as _guard
from duetlink.groups.torch.process_group import Options, create, needs_consent

__all__ = ["Options"]

_dist.Backend.register_backend("duetlink", create, extended_api=True, devices=["cpu"])
_guard(needs_consent)
