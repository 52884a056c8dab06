"""Small HTML fragments for notebooks: a heading and a table, with everything escaped."""

import html
from collections.abc import Iterable, Sequence

MOST_ROWS = 200
LONGEST_CELL_CHARS = 400


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table; long cells are cut and many rows are counted, so that a browser stays usable."""
    kept = list(rows)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in kept[:MOST_ROWS])
    more = f"<p>… {len(kept) - MOST_ROWS} more rows</p>" if len(kept) > MOST_ROWS else ""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def lines(*texts: str) -> str:
    """Return paragraphs."""
    return "".join(f"<p>{html.escape(text)}</p>" for text in texts)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    cut = f"{text[:LONGEST_CELL_CHARS]} …" if len(text) > LONGEST_CELL_CHARS else text
    return html.escape(cut)
