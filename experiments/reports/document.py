"""A report: sections with text, pictures and tables, as one HTML file, as Markdown, and tables as CSV."""

from __future__ import annotations

import base64
import csv
import html
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...files import replace_file
from ...trainers import Interval

#: A row of a table: raw values by name, as the CSV file has them.
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ReportColumn:
    """A column as people read it."""

    heading: str
    show: Callable[[Row], str]
    is_text: bool = False  # to the left; numbers go to the right


@dataclass(frozen=True)
class ReportTable:
    """Rows for people (by `columns`) and for programs (all values, in `<name>.csv`)."""

    name: str
    title: str
    rows: Sequence[Row]
    columns: Sequence[ReportColumn]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """A PNG file in the folder of the report."""

    file: str
    caption: str
    is_folded: bool = False  # in HTML only, and there it is unfolded by a click


@dataclass(frozen=True)
class Section:
    """A part of a report with a heading."""

    title: str
    paragraphs: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[ReportTable] = ()


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    paragraphs: Sequence[str] = ()
    sections: Sequence[Section] = field(default_factory=tuple)

    @property
    def tables(self) -> list[ReportTable]:
        """All tables, in their order."""
        return [table for section in self.sections for table in section.tables]


def write_document(document: Document, folder: Path) -> None:
    """Write `report.html`, `report.md` and a CSV file per table into `folder`; pictures are there already.

    A kill leaves each file as it was or whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for table in document.tables:
        replace_file(folder / f"{table.name}.csv", csv_text(table.rows).encode())
    replace_file(folder / "report.md", as_markdown(document).encode())
    replace_file(folder / "report.html", as_html(document, folder).encode())


def csv_text(rows: Sequence[Row]) -> str:
    """Rows as CSV, with every name that any of them has; what a row lacks, or has as None, is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def interval_values(name: str, interval: Interval | None) -> dict[str, float | None]:
    """Return an interval as the values `<name>_mean`, `_low` and `_high` of a row; None: not known."""
    numbers = (math.nan,) * 3 if interval is None else (interval.mean, interval.low, interval.high)
    parts = zip(("mean", "low", "high"), numbers, strict=True)
    return {f"{name}_{part}": number if math.isfinite(number) else None for part, number in parts}


def range_values(name: str, values: Sequence[float]) -> dict[str, float | None]:
    """Return the mean of `values` and their range, which a single one does not have, likewise."""
    mean = math.fsum(values) / len(values) if values else None
    low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
    return {f"{name}_mean": mean, f"{name}_low": low, f"{name}_high": high}


def counted(number: int, name: str) -> str:
    """1 game, 2 games."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def as_markdown(document: Document) -> str:
    """The report for a README: without folded pictures, which lie beside it."""
    lines = [f"# {document.title}", "", *_spaced(document.paragraphs)]
    for section in document.sections:
        lines += [f"## {section.title}", "", *_spaced(section.paragraphs)]
        for picture in section.pictures:
            if not picture.is_folded:
                lines += [f"![{Path(picture.file).stem}]({picture.file})", "", picture.caption, ""]
        for table in section.tables:
            headings, is_text = zip(*((c.heading, c.is_text) for c in table.columns), strict=True)
            cells = [[column.show(row) for column in table.columns] for row in table.rows]
            lines += [f"### {table.title}", "", *markdown_table(headings, is_text, cells), ""]
            lines += _spaced(table.notes)
    return "\n".join(lines).rstrip() + "\n"


def _spaced(paragraphs: Sequence[str]) -> list[str]:
    return [line for paragraph in paragraphs for line in (paragraph, "")]


def markdown_table(
    headings: Sequence[str], is_text: Sequence[bool], rows: Sequence[Sequence[str]]
) -> list[str]:
    """Return the lines of a table; text is to the left and numbers are to the right."""
    ruler = ["---" if left else "---:" for left in is_text]
    cells = [headings, ruler, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return ["| " + " | ".join(row) + " |" for row in cells]


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  max-width: 76rem; padding: 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.3rem; margin-top: 2.5rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { max-width: 48rem; } p.note, figcaption { color: #555; font-size: .88rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; } summary { cursor: pointer; color: #0b57a4; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd; }
th { vertical-align: bottom; border-bottom: 2px solid #888; } .text { text-align: left; }
tbody tr:hover { background: #f3f6fa; }
"""


def as_html(document: Document, folder: Path) -> str:
    """The report as one file: the pictures of `folder` are in it, and nothing is loaded from elsewhere."""
    parts = [f"<h1>{html.escape(document.title)}</h1>", *map(_paragraph, document.paragraphs)]
    for section in document.sections:
        parts += [f"<h2>{html.escape(section.title)}</h2>", *map(_paragraph, section.paragraphs)]
        parts += [_figure(picture, folder) for picture in section.pictures]
        parts += [_html_table(table) for table in section.tables]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(document.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{kind}>{html.escape(text)}</p>"


def _figure(picture: Picture, folder: Path) -> str:
    data = base64.b64encode((folder / picture.file).read_bytes()).decode()
    caption = html.escape(picture.caption)
    image = f'<img alt="{caption}" src="data:image/png;base64,{data}">'
    if picture.is_folded:
        return f"<details><summary>{caption}</summary><figure>{image}</figure></details>"
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def _html_table(table: ReportTable) -> str:
    kinds = [' class="text"' if column.is_text else "" for column in table.columns]
    head = "".join(
        f"<th{kind}>{html.escape(column.heading)}</th>"
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{html.escape(column.show(row))}</td>"
            for kind, column in zip(kinds, table.columns, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    notes = "\n".join(_paragraph(note, ' class="note"') for note in table.notes)
    return (
        f'<h3>{html.escape(table.title)}</h3>\n<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n{notes}"
    )
