"""Clients made of what else is used for this. What they import is installed for benchmarks only."""
