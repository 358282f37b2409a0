"""Layouts of the operands and results of matrix instructions."""
