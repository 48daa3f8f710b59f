"""What editors and type checkers see of `import spinup`; never imported when a program runs."""

from spinup.algos.pytorch.acer.acer import acer
from spinup.algos.pytorch.acer.acer import acer as acer_pytorch
from spinup.algos.pytorch.ddpg.ddpg import ddpg
from spinup.algos.pytorch.ddpg.ddpg import ddpg as ddpg_pytorch
from spinup.algos.pytorch.dqn.dqn import dqn
from spinup.algos.pytorch.dqn.dqn import dqn as dqn_pytorch
from spinup.algos.pytorch.her.her import her
from spinup.algos.pytorch.her.her import her as her_pytorch
from spinup.algos.pytorch.ppo.ppo import ppo
from spinup.algos.pytorch.ppo.ppo import ppo as ppo_pytorch
from spinup.algos.pytorch.reinforce.reinforce import reinforce
from spinup.algos.pytorch.reinforce.reinforce import reinforce as reinforce_pytorch
from spinup.algos.pytorch.sac.sac import sac
from spinup.algos.pytorch.sac.sac import sac as sac_pytorch
from spinup.algos.pytorch.td3.td3 import td3
from spinup.algos.pytorch.td3.td3 import td3 as td3_pytorch
from spinup.algos.pytorch.trpo.trpo import trpo
from spinup.algos.pytorch.trpo.trpo import trpo as trpo_pytorch
from spinup.algos.pytorch.vpg.vpg import vpg
from spinup.algos.pytorch.vpg.vpg import vpg as vpg_pytorch
from spinup.algos.tf1.ddpg.ddpg import ddpg as ddpg_tf1
from spinup.algos.tf1.ppo.ppo import ppo as ppo_tf1
from spinup.algos.tf1.sac.sac import sac as sac_tf1
from spinup.algos.tf1.td3.td3 import td3 as td3_tf1
from spinup.algos.tf1.trpo.trpo import trpo as trpo_tf1
from spinup.algos.tf1.vpg.vpg import vpg as vpg_tf1
from spinup.envs.checking import check_env
from spinup.registry import register
from spinup.runs.logger import EpochLogger, Logger

__all__ = [
    "EpochLogger",
    "Logger",
    "acer",
    "acer_pytorch",
    "check_env",
    "ddpg",
    "ddpg_pytorch",
    "ddpg_tf1",
    "dqn",
    "dqn_pytorch",
    "her",
    "her_pytorch",
    "ppo",
    "ppo_pytorch",
    "ppo_tf1",
    "register",
    "reinforce",
    "reinforce_pytorch",
    "sac",
    "sac_pytorch",
    "sac_tf1",
    "td3",
    "td3_pytorch",
    "td3_tf1",
    "trpo",
    "trpo_pytorch",
    "trpo_tf1",
    "vpg",
    "vpg_pytorch",
    "vpg_tf1",
]
