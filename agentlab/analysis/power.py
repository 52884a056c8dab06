"""How many tasks and repeats a comparison needs, and what a given design can detect.

A task's pass probability differs from task to task: the ICC says how much of the variance that is, the correlation
how alike two strategies find the tasks' difficulty. Beyond 5 to 10 repeats more tasks help, more repeats do not.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.power import TTestPower

from agentlab.errors import ConfigError

T_VERSION_EXTRA = 2
"""Units that the t distribution asks for above the normal formula in the usual range."""


@dataclass(frozen=True, slots=True)
class Design:
    """A planned comparison of two strategies."""

    baseline_rate: float
    strategy_rate: float
    repeats: int = 1
    icc: float = 0.3
    """Share of the variance of `success` that tasks explain."""
    correlation: float | None = 0.8
    """Correlation of the tasks' true pass probabilities between the strategies; None: disjoint tasks (unpaired)."""
    alpha: float = 0.05
    """Two-sided."""
    power: float = 0.8

    def __post_init__(self) -> None:
        rates = (self.baseline_rate, self.strategy_rate)
        if not all(0 <= rate <= 1 for rate in rates) or rates[0] == rates[1]:
            raise ConfigError(f"A design needs two different rates in [0, 1], not {rates[0]:g} and {rates[1]:g}.")
        if self.repeats < 1 or not 0 <= self.icc <= 1 or not -1 <= (self.correlation or 0) <= 1:
            raise ConfigError("A design needs repeats >= 1, an ICC in [0, 1] and a correlation in [-1, 1].")

    @property
    def difference(self) -> float:
        """Strategy minus baseline."""
        return self.strategy_rate - self.baseline_rate

    @property
    def variance(self) -> float:
        """Variance of one task's difference; for disjoint tasks the sum of the two arms' variances."""
        a, b = (rate * (1 - rate) for rate in (self.baseline_rate, self.strategy_rate))
        shared = 2 * (self.correlation or 0.0) * self.icc * math.sqrt(a * b)
        return self.icc * (a + b) - shared + (1 - self.icc) * (a + b) / self.repeats


def tasks_needed(design: Design, *, t_version: bool = True) -> int:
    """Return the tasks a comparison needs (paired: the same for both; unpaired: per strategy).

    Args:
        design: what is to be detected, with which power.
        t_version: exact for the t test of paired designs; False gives the normal formula
            (z_alpha + z_power)^2 V / d^2, which unpaired designs always use.
    """
    if t_version and design.correlation is not None:
        effect = abs(design.difference) / math.sqrt(design.variance)
        found = TTestPower().solve_power(effect, None, design.alpha, design.power)
        return max(2, math.ceil(float(np.squeeze(found)) - 1e-9))
    return math.ceil(normal_tasks(design))


def normal_tasks(design: Design) -> float:
    """Return the normal formula's number of tasks, not rounded."""
    return _z_sum(design.alpha, design.power) ** 2 * design.variance / design.difference**2


def power_of(design: Design, n_tasks: int) -> float:
    """Return the chance that `n_tasks` show the design's difference (paired: t test; unpaired: normal)."""
    effect = abs(design.difference) / math.sqrt(design.variance)
    if design.correlation is not None:
        return float(TTestPower().power(effect, n_tasks, design.alpha))
    return float(stats.norm.cdf(effect * math.sqrt(n_tasks) - stats.norm.ppf(1 - design.alpha / 2)))


def detectable_difference(design: Design, n_tasks: int) -> float:
    """Return the smallest difference that `n_tasks` detect, with the variance that the design's rates imply."""
    return _z_sum(design.alpha, design.power) * math.sqrt(design.variance / n_tasks)


def clusters_needed(differences: ArrayLike, margin: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Return how many clusters would detect the margin, given the spread of observed cluster differences.

    Args:
        differences: one per cluster; they carry the repeats, ICC and correlation that were found.
        margin: the difference that matters.
        alpha: two-sided level.
        power: chance to find a difference as large as the margin.

    Returns:
        None when the differences have no spread to plan with (fewer than two, or all alike).
    """
    data = np.asarray(differences, dtype=float)
    sd = float(data.std(ddof=1)) if len(data) > 1 else 0.0
    if sd == 0:
        return None
    return math.ceil(_z_sum(alpha, power) ** 2 * (sd / margin) ** 2) + T_VERSION_EXTRA


def mcnemar_tasks(only_first: float, only_second: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the tasks that McNemar's test needs by the usual formula, from the two discordant shares.

    The exact test is conservative: it has a few points less power there, so plan some 6 % more.

    Source: Connor 1987.
    """
    discordant, difference = only_first + only_second, only_second - only_first
    z_alpha, z_power = stats.norm.ppf(1 - alpha / 2), stats.norm.ppf(power)
    root = z_alpha * math.sqrt(discordant) + z_power * math.sqrt(discordant - difference**2)
    return math.ceil(float(root) ** 2 / difference**2)


def non_inferiority_tasks(rate: float, margin: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Return the independent tasks per strategy that show 'not worse by the margin' (one-sided), equal true rates."""
    return math.ceil(_z_sum(2 * alpha, power) ** 2 * 2 * rate * (1 - rate) / margin**2)


def _z_sum(alpha: float, power: float) -> float:
    return float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))
