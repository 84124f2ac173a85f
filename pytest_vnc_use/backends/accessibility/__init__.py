"""Elements of programs that are no browser, from the accessibility tree."""
