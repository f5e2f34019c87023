"""Which sizes of a result are the same for any data, and so may be told from its mock."""
