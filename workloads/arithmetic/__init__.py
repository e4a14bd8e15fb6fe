"""What operators compute for one element, once for all kinds of numbers: numpy's, and expressions of a compiler."""
