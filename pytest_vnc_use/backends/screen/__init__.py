"""The pixels of the screen: their values, their changes, and when they are at rest."""
