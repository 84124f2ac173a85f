"""How a screen is driven: `vnc.VNCController` is the controller; the folders below it are its parts."""
