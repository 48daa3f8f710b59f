"""The arguments of training functions: their table, their domains, and other libraries' words."""

from spinup.runs.arguments.options import OffPolicyOptions as OffPolicyOptions
from spinup.runs.arguments.options import RunOptions as RunOptions
from spinup.runs.arguments.options import TfOffPolicyOptions as TfOffPolicyOptions
from spinup.runs.arguments.options import TfOptions as TfOptions
from spinup.runs.arguments.options import TorchOptions as TorchOptions
from spinup.runs.arguments.options import Unpack as Unpack
from spinup.runs.arguments.table import training_function as training_function
