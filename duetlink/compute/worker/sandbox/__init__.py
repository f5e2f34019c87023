"""What shuts a room in: one file per mechanism, and `lockdown.py`, which puts them in force in order."""
