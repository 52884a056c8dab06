"""Sample DS-1: 8 tasks x 5 repeats of two strategies; digits are pass/fail in repeat order."""

import pandas as pd

A = {
    "t1": "11111",
    "t2": "11101",
    "t3": "11111",
    "t4": "01101",
    "t5": "00100",
    "t6": "11011",
    "t7": "00000",
    "t8": "10110",
}
B = {
    "t1": "11111",
    "t2": "11111",
    "t3": "11111",
    "t4": "11101",
    "t5": "10110",
    "t6": "11111",
    "t7": "01000",
    "t8": "11110",
}


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
