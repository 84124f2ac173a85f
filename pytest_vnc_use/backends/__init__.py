"""The driver of a screen: `vnc.VNCController` is the controller; the folders here hold its parts."""
