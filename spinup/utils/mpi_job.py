"""What the launcher of an MPI job and its processes agree on.

The launcher (`mpi_launch.py`) and the processes (`mpi_world.py`) share a folder. In it are a small
table, where every process counts its steps and collective operations, and the error that ended a
process. The folder and the job are named by environment variables.
"""

JOB_VARIABLE = "SPINUP_MPI_JOB"  # the folder; a new one each time the job is started
ID_VARIABLE = "SPINUP_MPI_JOB_ID"  # stays the same when a job is restarted; set if it may be
TIME_VARIABLE = "SPINUP_MPI_JOB_TIME"  # when the job was started for the first time
LOG_VARIABLE = "SPINUP_MPI_LOG_ALL_RANKS"

INSTALL = "pip install 'spinup[mpi]'"

# Columns of the table: collectives entered, collectives left, steps taken, whether in a run.
ENTERED, LEFT, STEPS, RUNNING = range(4)
COLUMNS = 4

# A process that fails leaves its last words in a file whose name starts with one of these: an error
# of the program, or of MPI, which fails in one process when another is gone.
ERROR, LOST = "error", "lost"
