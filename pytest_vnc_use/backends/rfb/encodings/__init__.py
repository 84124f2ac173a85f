"""The encodings of RFB in which pixels travel, decoded by numpy: no loop in Python runs over pixels."""
