"""The report for a reviewer, made from the run folder only. `html.run_html` is the entry point; it needs Pillow."""
