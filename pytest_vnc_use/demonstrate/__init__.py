"""Recording by hand: a user's input becomes the steps of a recording, or a new test."""
