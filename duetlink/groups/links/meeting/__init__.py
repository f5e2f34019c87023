"""The meeting of a group: one session code with a seat for each member, and a link between every two members.

**Session code**: `7-crossover-clockwork`, a nameplate (mailbox number) and two words that act as a password.
**Mailbox**: carries the bytes of one pairing at the signaling server.
**Hall**: a nameplate with many mailboxes. Its key lets the holder open more mailboxes under the same code.
**Seat**: one mailbox of the hall, at which one newcomer pairs with the host.
**Door**: the open seats, at the host. One wrong guess of the code closes all of them.
**Knock**: a newcomer's attempt to reach the host by the code.
**Pairing**: a SPAKE2 exchange by which both sides prove that they know the code.

Example: the founder opens a group of three, and two newcomers come.

1. `Door.open(server, 2, lifetime_s)` claims a hall with two mailboxes, and returns `7-crossover-clockwork`.
2. Newcomer A calls `knock(wiring, code)`, gets the first mailbox, and pairs; `Door` calls `on_link` with the
   link to A. Newcomer B does the same at the second mailbox.
3. The host tells each newcomer the keys of the members before it (`membership.seat_assignment`).
4. B and A have no code in common, but both can compute the key of their pair from the roster. Each calls
   `Wiring.meet(key, url)`, and they make their own link.
"""
