"""`duetlink demo`: notebooks, played against each other in real Jupyter kernels.

`lesson` knows which notebooks there are, `play` starts it all and ends it all, `player` runs one notebook in
one kernel, `server` is the signaling server in a process of its own, `screen` shows what goes on, `summary`
is what each kernel tells of its duets at the end, `outcome` the tables made of that.
"""
