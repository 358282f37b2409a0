"""What several passes ask of a program; nothing here changes one."""
