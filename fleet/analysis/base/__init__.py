"""Selecting runs, tables of pandas, and formatting: what every part of `analysis` stands on."""
