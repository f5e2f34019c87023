"""Arrow Flight between two peers that pin each other's certificate: server, client, tickets, chunks."""
