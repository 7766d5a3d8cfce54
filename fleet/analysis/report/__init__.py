"""One self-contained HTML page about one or more runs: `page.render` makes it, `output.write` keeps it."""
