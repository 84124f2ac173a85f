"""What a reviewer sees: a pure function of the run folder. `extras.run_html` is the way in; it needs Pillow."""
