"""Training by gossip: members average with their neighbours, over networks that lose what is sent.

duetlink finds it by its entry point, as `duetlink.learning.Gossip`, and never imports this package.
"""
