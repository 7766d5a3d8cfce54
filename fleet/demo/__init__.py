"""A lab to learn on: made-up machines with runs of eight nights, of one day, of every benchmark."""
