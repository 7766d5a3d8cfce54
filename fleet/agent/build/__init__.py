"""Where an agent's binary comes from: sources, toolchains and the four places that can
build it.
"""
