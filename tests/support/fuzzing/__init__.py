"""Hostile input: how it is made, and what is tried with it."""
