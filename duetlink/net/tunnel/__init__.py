"""An ordered, reliable byte stream over UDP datagrams, whole batches of them at a time.

`transport.TunnelTransport` is the stream, an `asyncio.Transport`. Below it, each usable alone: `datagram`
(layout and authentication), `datagram_port` (sending and receiving batches), `recovery` (packet numbers,
loss), `mtu`, `controller` (how fast). The tunnel hides nothing from the network: who uses it sends
ciphertext.
"""
