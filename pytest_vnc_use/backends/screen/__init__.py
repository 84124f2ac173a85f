"""Pixels of the screen: what they are, what changed, when they are at rest."""
