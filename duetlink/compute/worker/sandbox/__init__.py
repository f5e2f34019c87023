"""What shuts a worker in: one file per mechanism, and `lockdown.py`, which puts them in force in order."""
