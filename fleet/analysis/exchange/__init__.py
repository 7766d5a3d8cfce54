"""Other tools' matrices, read and written number for number, and the summaries made of them."""
