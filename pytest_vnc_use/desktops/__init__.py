"""Desktops: started here (TigerVNC, Qt, a container), or by another user."""
