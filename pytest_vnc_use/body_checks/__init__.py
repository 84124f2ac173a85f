"""The analysis of a test's source: does the body check the product?"""
