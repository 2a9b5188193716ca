"""Decisions: no I/O, no clock, no randomness. Time and random numbers are arguments."""
