"""The encodings of RFB that pixels travel in, decoded by numpy: no loop in Python runs over pixels."""
