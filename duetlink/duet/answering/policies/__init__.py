"""Rules by which requests of the peer are answered: the first that matches; where none does, a person."""
