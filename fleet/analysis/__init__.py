"""The reading half (floor 3): frames, topology order, matrices. The only package that imports pandas."""
