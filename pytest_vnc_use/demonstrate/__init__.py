"""Recording by hand: a person shows a task in a VNC viewer."""
