"""Claude as planner and as judge."""
