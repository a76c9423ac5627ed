"""How `borzoi check` tells what it found: as text or JSON, and as an exit code.

    0   everything verifies, or was mended
    2   something is wrong that costs nothing: --repair or the next start mends it
    3   something is damaged

1 means, as for every command, that there was nothing to check: no data, or a broker uses it.
"""

import json
from dataclasses import asdict, fields
from typing import Final

from borzoi.storage.findings import Counts, Finding, Findings, Level

EXIT_CODES: Final = {Level.NOTE: 0, Level.MENDABLE: 2, Level.DAMAGED: 3}


def exit_code(findings: Findings) -> int:
    """Returns the exit code of the worst finding."""
    return EXIT_CODES[findings.worst]


def as_json(root: str, findings: Findings) -> str:
    """Everything, for programs."""
    report = {
        "data": root,
        "repair": findings.repair,
        "exit_code": exit_code(findings),
        "verified": asdict(findings.counts),
        "findings": [
            {
                "level": one.level.name.lower(),
                "path": one.path,
                "text": one.text,
                "mended": one.mended or None,
            }
            for one in findings.found
        ],
    }
    return json.dumps(report, indent=2)


def text_lines(root: str, findings: Findings) -> list[str]:
    """One for each finding, then the counts and a verdict."""
    lines = [_line(one) for one in findings.found]
    counted = (f"{_name(field.name)} {getattr(findings.counts, field.name):,}" for field in COUNTED)
    lines.append(f"verified: {', '.join(counted)}")
    lines.append(f"{root}: {_verdict(findings)}")
    return lines


COUNTED: Final = fields(Counts)


def _name(field: str) -> str:
    return field.replace("_", " ")


def _line(finding: Finding) -> str:
    mended = f" -> {finding.mended}" if finding.mended else ""
    return f"{finding.level.name.lower():8}  {finding.path}: {finding.text}{mended}"


def _verdict(findings: Findings) -> str:
    mended = sum(bool(one.mended) for one in findings.found)
    done = f"{mended} mended, " if mended else ""
    left = [one for one in findings.found if not one.mended]
    damaged = sum(one.level is Level.DAMAGED for one in left)
    mendable = sum(one.level is Level.MENDABLE for one in left)
    if damaged:
        return f"{done}{damaged} damaged, {mendable} mendable"
    if mendable:
        return f"{done}{mendable} mendable: --repair or the next start does it, nothing is lost"
    return f"{done}everything verifies"
