"""A lab to learn on: made-up machines with runs of many nights, of one day, of every benchmark."""
