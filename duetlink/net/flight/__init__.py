"""Arrow Flight between two peers that pin each other's certificate: server, client, tickets, bodies.

  endpoint   what all links of a process share; it owns one identity, one authority and the Flight servers
  identity   a self-signed certificate and its key; clients pin the peer's
  authority  signs the certificates of the clients that may call this endpoint's server (`certificate.py`)
  guest      one link as the server knows it: its tickets and its limits (`guest.py`)
  ticket     32 random bytes that admit to one fetch, once, for 60 s (`tickets.py`)
  body       the bytes of one encoded value; a leaf is 4 MiB of it, and each leaf has a digest
  block      a range of a body within one leaf whose items have one type
  chunk      a block encoded by a codec, with a header
  gate       decides if blocks of a transfer may be sent; shut while the transfer is paused

Example: a guest's client calls `DoGet(ticket)`. The server finds the guest by the name in the client's
certificate and redeems the ticket, which refers to a body of 10,000,000 bytes and the missing range
(4,194,304, 10,000,000). The first leaf in that range, 4,194,304 to 8,388,608, is read and compared with its
digest. Its blocks are sent as record batches, plain or encoded as the tuner decides, as long as the gate is
open. The client's side decodes each chunk, copies it to its position in the receive buffer, and updates the
digest of the whole.
"""
