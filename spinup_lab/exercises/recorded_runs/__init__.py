"""Logs of runs that are shipped with the exercises; `spinup_lab.exercises.recorded` reads them."""
