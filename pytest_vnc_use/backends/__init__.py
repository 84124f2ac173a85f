"""The driver of a screen: `vnc.VNCController` is the controller; the directories hold its parts."""
