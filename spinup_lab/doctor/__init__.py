"""Examine runs: find out why a run does not learn, from what it has logged and saved.

    from spinup_lab.doctor import examine

    for finding in examine("data/ppo/ppo_s0"):
        print(finding.level, finding.sentence)

`spinup doctor RUN...` prints the same findings.
"""

from spinup.utils.findings import Finding
from spinup_lab.doctor.examination import examine
from spinup_lab.parts import PARTS

__all__ = ["PARTS", "Finding", "examine"]
