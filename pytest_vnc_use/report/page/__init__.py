"""The pages that a reviewer reads: one of a session, and one of each run. They are a pure function of run folders.

run folder  ->  run_view.py, session_view.py  ->  model.py, plain data  ->  templates  ->  writing.py, files
"""
