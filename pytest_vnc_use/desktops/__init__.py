"""How a desktop comes to be: somebody else's at an address, or the program under test on Qt's own VNC platform."""
