"""Keys: their names, their keysyms, and the keystrokes of an action."""
