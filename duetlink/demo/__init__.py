"""`duetlink demo`: two notebooks, played against each other in two real Jupyter kernels.

`play` starts it all and ends it all, `player` runs one notebook in one kernel, `server` is the signaling
server in a process of its own, `screen` shows what goes on, `summary` is what each kernel tells of its duet
in its last cell, `outcome` the tables made of the two.
"""
