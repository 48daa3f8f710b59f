"""The lab: everything that teaches and examines, built on `spinup`'s public names.

`exercises` (and the mistakes they know), `doctor` (examines runs), `probe` (examines training
functions), `bugs` (implementations with one known fault each), and their `commands`.
"""
