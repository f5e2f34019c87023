"""How a group meets: one code with a seat for each, and a link between every two of its members."""
