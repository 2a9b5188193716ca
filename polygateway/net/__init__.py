"""The only part that touches sockets."""
