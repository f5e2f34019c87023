"""Groups: 2 to 16 notebooks that meet by one code, and operations that all of them call together.

`membership` agrees on who is a member, `links` connects the members, `collectives` performs operations over
these connections, `lifecycle` joins, runs, survives losses and leaves, `secure` sums masked values, `api` is
what a user calls, and `torch` offers all of it as a backend of torch.distributed.
"""
