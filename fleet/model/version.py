"""The program's version, which runs, reports and shipped agents carry."""

VERSION = "0.1.0"
