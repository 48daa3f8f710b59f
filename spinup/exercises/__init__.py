"""Exercises: functions to write, and a bug to find; see docs/exercises.md."""
