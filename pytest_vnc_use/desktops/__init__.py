"""How a desktop comes to be: somebody else's at an address, TigerVNC's, or the program on Qt's own VNC platform."""
