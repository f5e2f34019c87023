"""Training by gossip: members average with their neighbours, over networks that lose datagrams.

- gossip round: a member sends its model, receives those of its neighbours, and averages what has arrived.
- neighbours: the members that a member exchanges models with, given by a graph.
- chunk: a part of a model that fits one datagram. It holds every n-th parameter, and is usable alone.
- parity: the XOR of a group of chunks, from which one lost chunk can be recovered.
- mass: in push-sum, the share of the sum that a chunk carries. Values divided by mass are the model.
- pace: the rate at which a member sends to one neighbour, measured by what arrives there.
- patience: the deadline of a round, learnt from the durations of earlier rounds.
- fragment: a chunk in the "async" mode, where each is sent to a few random members.
- node: the protocol of one member, without socket or clock; the courier runs it on a post (a network).

Example: three members on a ring hold one parameter each, 0, 3 and 6. Each has two neighbours, so every weight
is 1 / 3, and a round without loss gives all of them 3. If the datagram from the third to the first member is
lost, the first uses its own 0 instead: (0 + 3 + 0) / 3 = 1.

duetlink finds this package by its entry point, as `duetlink.learning.Gossip`, and never imports it.
"""
