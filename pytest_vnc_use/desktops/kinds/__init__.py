"""The kinds of desktops, a file each."""
