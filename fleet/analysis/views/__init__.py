"""What the reading commands print: text for people, JSON and CSV for programs."""
