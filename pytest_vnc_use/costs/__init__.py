"""The costs of models: prices, budgets, and a ledger that all processes of a session share."""
