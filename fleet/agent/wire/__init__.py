"""What the agent prints (docs/wire.md): records, conversations, and runs that took several. Pure."""
