"""Passes: functions from `PrimFunc` to `PrimFunc`; `pipelines.py` lists them in order."""
