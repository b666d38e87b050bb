"""A cleaning's report as one HTML file."""

from __future__ import annotations

from uwaga.cleaning.report import CleaningReport
from uwaga.results.html import details, heading, page, paragraph, table


def report_page(report: CleaningReport) -> str:
    """Each rule's toll, with its examples."""
    share = 100 * report.kept / max(1, report.read)
    parts = [
        paragraph(
            f"{report.read:,} lines read, {report.kept:,} pairs kept ({share:.2f}%), "
            f"{report.read - report.kept:,} taken out; {report.speed:,.0f} pairs per second."
        ),
        heading("What went"),
        table(
            ["rule", "what it takes out", "pairs", "% of all"],
            [
                (toll.name, toll.summary, toll.pairs, 100 * toll.pairs / max(1, report.read))
                for toll in report.tolls
            ],
        ),
        heading("Examples"),
    ]
    for toll in report.tolls:
        if toll.examples:
            rows = [(one.line, one.source, one.target) for one in toll.examples]
            parts.append(details(f"{toll.name}: {toll.pairs:,}", table(["line", "source", "target"], rows)))
    languages, rules = report.settings["languages"], report.settings["rules"]
    asked = [
        (name, ", ".join(f"{key} {value}" for key, value in group.items())) for name, group in rules.items()
    ]
    parts += [
        heading("Settings"),
        paragraph(f"Languages: {' → '.join(languages)}"),
        table(["rule", "settings"], asked),
    ]
    return page(f"Cleaning of {report.name}", parts)
