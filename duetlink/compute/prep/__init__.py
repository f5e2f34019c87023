"""What a pointer's `prep` asks a room for."""
