"""Where an agent's binary comes from: sources, toolchains, and four places that can compile it."""
