"""A lab to learn on: four made-up machines with runs of eight nights, and one with every benchmark."""
