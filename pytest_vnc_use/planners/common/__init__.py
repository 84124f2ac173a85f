"""The code that the planners of all services share."""
