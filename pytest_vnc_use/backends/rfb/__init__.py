"""The VNC protocol: connection, authentication, encodings, clipboard, and the quirks of servers."""
