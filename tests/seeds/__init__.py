"""The five specification documents, name by name and cell by cell."""
