"""Whether a private training keeps what it promises, tried from outside: see `probe`."""
