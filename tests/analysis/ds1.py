"""Sample DS-1: 8 tasks x 5 repeats of two strategies; digits are pass/fail in repeat order."""

import pandas as pd

TASKS = [f"t{number}" for number in range(1, 9)]
A = dict(zip(TASKS, ["11111", "11101", "11111", "01101", "00100", "11011", "00000", "10110"], strict=True))
B = dict(zip(TASKS, ["11111", "11111", "11111", "11101", "10110", "11111", "01000", "11110"], strict=True))


def frame(digits: dict[str, str], **columns: object) -> pd.DataFrame:
    """One row per digit; 'x' is a run without success (infrastructure)."""
    rows = [
        {"task_id": task, "repeat": repeat, "success": None if digit == "x" else int(digit), **columns}
        for task, text in digits.items()
        for repeat, digit in enumerate(text)
    ]
    result = pd.DataFrame(rows)
    result["success"] = result["success"].astype("Int64")
    return result


def both() -> pd.DataFrame:
    return pd.concat([frame(A, strategy="A"), frame(B, strategy="B")], ignore_index=True)
