"""The VNC protocol: connection, authentication, encodings, clipboard, and what a server can do."""
