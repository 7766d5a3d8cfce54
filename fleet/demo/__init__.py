"""A lab to learn on: four made-up machines with runs of eight nights, in a results root of its own."""
