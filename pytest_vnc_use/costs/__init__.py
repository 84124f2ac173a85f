"""What models cost: prices, budgets, and a ledger for all processes of a session."""
