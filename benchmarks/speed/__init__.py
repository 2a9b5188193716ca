"""What a call and a chunk cost, beside bare httpcore, raw sockets and what else could be used."""
