"""Desktops: started by the plugin (TigerVNC, Qt, a container), or external."""
