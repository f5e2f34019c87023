"""Training that tells the truth: private training with an account that holds, alone or in a group.

Needs torch and dp-accounting: `pip install "duetlink[learning]"`.
"""

from duetlink.learning.audit.probe import Probe, Verdict, audit, share_noise
from duetlink.learning.dp.accounting import Spending, most_steps, noise_for
from duetlink.learning.dp.training import DpSgd

__all__ = ["DpSgd", "Probe", "Spending", "Verdict", "audit", "most_steps", "noise_for", "share_noise"]
