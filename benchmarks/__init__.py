"""What the numbers of docs/ were measured with; no part of fleet."""
