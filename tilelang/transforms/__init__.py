"""Passes: functions from `PrimFunc` to `PrimFunc`, one file each; `compiler` has the list."""
