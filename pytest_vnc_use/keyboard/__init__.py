"""Keys: their names, keysyms, and the keystrokes of an action."""
