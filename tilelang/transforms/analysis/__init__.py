"""Analyses that several passes share; none changes a program."""
