"""Import and export: matrices of other tools, and the summaries made from them."""
