"""What the planners of all services share."""
