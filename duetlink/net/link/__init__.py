"""One link: everything that connects this notebook with one peer, over one connection after another.

  link         control channel, paths, streams and datagrams of one peer (`link.py`)
  endpoint     what all links of a process share: an identity, the Flight server, thread pools
  connection   one WebRTC connection; the reconnector replaces it when it breaks
  control channel  ordered, reliable protobuf messages and calls, which survive a lost connection
  body         the bytes of one encoded value
  offer        a message that announces a body: its size, fingerprint, and the bytes themselves or a ticket
  export       a body that this side has offered and that the peer has not finished (`export.py`)
  pull         the receiving of one body (`pull.py`)
  transfer     the record of one body under way, on either side, that `statistics()` shows

Example: the scientist's request for a table of 72 MB was approved. `Exports.offer` on the owner's side
registers an `Export` under a random 16-byte number, and the answer carries the offer: size 72,000,000, the
fingerprint, and a ticket for the path "tcp". `Imports.pull` on the scientist's side begins a `Pull`, first
copies what it has kept of earlier versions, then fetches the rest by "tcp". If "tcp" breaks after 30 MB, the
pull asks for a new ticket with the missing ranges and continues by another path. At the end it compares the
digest of the body with the fingerprint and sends `TransferEnd(complete=True)`, and the owner's side ends the
`Export`.
"""
