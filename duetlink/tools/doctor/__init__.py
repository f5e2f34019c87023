"""Examines what this machine's network allows, and says in plain words what to do (`duetlink doctor`).

Nouns:

- finding: one fact with an outcome (ok, limited, failed, unknown), words and advice (`finding.py`).
- probe: asks one question: `nat_probe.py`, `servers.py` (STUN and TURN), `signaling_probe.py`, `names.py`
  (DNS).
- STUN server: says from which outer address it sees this machine. TURN server: relays for this machine.
- mapping: the outer address and port that a NAT gives to a local port (`nat.py`).
- rung: one path to peers in other networks, with an estimate whether it will work (`rungs.py`).
- report: all findings, the rungs and a verdict (`report.py`). `examine.py` runs all probes and makes it.

Example. With one STUN server configured, `duetlink doctor` sends it Binding requests. An answer gives the
finding `stun ok`, and by UDP also `udp ok`. The server sees another address than this machine has, so there
is a NAT; one server cannot show of which kind, which gives `nat unknown` with the advice to configure a
second one. The rung `punched` is then `unknown`, and `udp` is `some`.
"""
