"""An audit of a private training from outside: a test of its promise. See `probe`."""
