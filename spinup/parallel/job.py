"""The protocol between the launcher of an MPI job and the job's processes.

The launcher (`launch.py`) and the processes (`world.py`) share a folder. It contains the
error that ended a process, if any, and a small table in which every process counts its steps and
collective operations. Environment variables contain the folder's path and the job's name.
"""

JOB_VARIABLE = "SPINUP_MPI_JOB"  # the folder; a new one for each launch
ID_VARIABLE = "SPINUP_MPI_JOB_ID"  # unchanged across restarts; set only for restartable jobs
TIME_VARIABLE = "SPINUP_MPI_JOB_TIME"  # when the job was first launched
LOG_VARIABLE = "SPINUP_MPI_LOG_ALL_RANKS"

INSTALL = "pip install 'spinup[mpi]'"

# Columns of the table: collectives entered, collectives left, steps taken, whether in a run, and
# the process's ID.
ENTERED, LEFT, STEPS, RUNNING, PID = range(5)
COLUMNS = 5

# A failing process writes its error to a file whose name starts with one of these: an error of the
# program, or an MPI error, which occurs in one process after another process has died.
ERROR, LOST = "error", "lost"
