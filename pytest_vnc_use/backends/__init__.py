"""The driver of a screen: `vnc.VNCController` is the controller, the other modules are
its parts.
"""
