"""The desk: one local page to watch tests as they run, step through them, and answer
what they ask.
"""
