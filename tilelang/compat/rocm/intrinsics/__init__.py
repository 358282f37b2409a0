"""Layouts of AMD's matrix instructions, under the import path of older programs."""
