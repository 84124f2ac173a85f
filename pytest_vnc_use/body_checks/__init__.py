"""Does the body of a test check the product? Read from its source."""
