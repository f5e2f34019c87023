"""A small internet in network namespaces: hosts behind gateways of every kind, servers, slow and lossy lines.

    with Lab() as lab:
        owner, scientist = lab.host("symmetric"), lab.host("full-cone")
        lab.shape(owner, rate_mbit=100, delay_ms=10, loss=0.01)
        owner.run(["ip", "address"])

Linux, root, and the programs in tests/system_packages.py. `python -m tests.lab` links every kind with every
other and writes docs/networks.md.
"""
