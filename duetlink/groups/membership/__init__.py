"""Who belongs to a group: its roster, and the epochs that its members agree on. Pure."""
