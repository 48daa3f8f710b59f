"""Logs of runs that are shipped with the exercises; `spinup.exercises.recorded` reads them."""
