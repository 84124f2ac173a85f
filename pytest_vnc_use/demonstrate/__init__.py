"""Recording by hand: a person demonstrates a task in a VNC viewer."""
