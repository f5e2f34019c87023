"""What a call that takes long draws of how it stands: a line or a bar, by what it is drawn on."""
