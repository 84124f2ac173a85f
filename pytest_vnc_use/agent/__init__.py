"""The agent: run a task, judge a claim, keep a budget."""
