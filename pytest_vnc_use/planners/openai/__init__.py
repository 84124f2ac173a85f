"""OpenAI's computer tool as planner, and its models as judges."""
