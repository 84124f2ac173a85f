"""What a reviewer sees of runs and sessions, made from run directories and their
results only.

`run_view` and `session_view` are the models; `pages`, `html` (pytest-html), `markdown`,
`junit` and `summaries` are their outputs, `templates` the HTML of them. `results` is
`vnc-results.json`, `sessions` finds and merges it.
"""
