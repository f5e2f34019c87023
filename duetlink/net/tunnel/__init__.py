"""The tunnel: an ordered, reliable byte stream over UDP datagrams, handled in batches with NumPy.

  stream        bytes at 64-bit positions; `transport.TunnelTransport` is an `asyncio.Transport`
  datagram      32 bytes of header and a payload (`datagram.py` has the layout)
  packet number  a new one for every transmission, so that a repeated payload has a different number
  port          sends and receives batches of datagrams over one socket (`datagram_port.py`)
  in flight     sent, and neither acknowledged nor given up as lost
  floor         the oldest packet number that is still in flight
  round         from the sending of a packet to its acknowledgement, about one round trip
  pacing rate   how fast datagrams are sent; the window limits how many bytes are in flight (`controller.py`)

Example: the program writes 3,000 bytes. The datagram size is 1,200, so the sender seals three datagrams with
the packet numbers 1 to 3 at the positions 0, 1,168 and 2,336 (number 0 was a ping). Datagram 2 is lost. The
acknowledgement has largest=3, the bits 1, 0, 1 for these three, and complete=1,168. `recovery.py` declares
number 2 lost, and its payload is sent again, with position 1,168 and a new packet number. The receiver then
delivers all 3,000 bytes in order.

Each layer can be used alone: `datagram`, `datagram_port`, `recovery`, `mtu`, `controller`. The tunnel
encrypts nothing: its users send ciphertext.
"""
