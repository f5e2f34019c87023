"""Training by gossip: members average with their neighbours, over networks that lose what is sent."""
