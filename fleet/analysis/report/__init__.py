"""One self-contained HTML page about one or more runs: `page.render` builds it."""
