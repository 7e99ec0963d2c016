"""The page of the audit, and its picture for the README."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from experiments.audit import opponent, rule
from experiments.audit.claim import GROUPS, KNOWN, MEANING, UNQUOTED, Claim, Finding, Verdict
from experiments.runs import DOCS, write_between
from experiments.tables import markdown

PAGE, PICTURE = DOCS / "audit.md", DOCS / "images" / "audit.svg"
BEGIN = "<!-- begin: printed by python -m experiments.audit --page -->"
END = "<!-- end: printed -->"
COLOURS = {
    Verdict.REPRODUCED: "#2e7d32",
    Verdict.AGREES: "#00695c",
    Verdict.DISAGREES: "#b3261e",
    Verdict.NOT_SHOWN: "#8a6100",
    Verdict.UNTESTED: "#5f6368",
}
"""Dark enough for white words on them: a contrast of 4.5 and more."""

ARXIV = re.compile(r"arXiv [\d.]+(?:v\d+)?")
Found = Mapping[str, tuple[Claim, Finding]]


def report(found: Found) -> str:
    """All of the page that is printed: counts, a table, and a section for each claim."""
    counts = counted(found)
    known = [opponent.OPPONENTS[name] for name in found if name in opponent.OPPONENTS]
    dearer = sum(each.dearer for each in known)
    meant = [(f"*{v.value}*", counts[v], MEANING[v]) for v in Verdict]
    meant += [(f"*{opponent.DEARER}*", f"{dearer} of {len(known)}", opponent.MEANING)]
    lines = [markdown("verdict | claims | what it means", meant)]
    lines += ["", f"{len(found)} claims, each of them run by one command, {seeds(found, 3)} with "]
    lines[-1] += f"three seeds or more, {seeds(found, 5)} with five or more."
    lines += ["", f"*Times the data* could be computed for {len(known)} claims by the numbers of "]
    lines[-1] += f"their own sources; it is above 1 for {dearer} of them. The other sources do not "
    lines[-1] += "say enough, and have no number here."
    lines += ["", rule.RULE]
    for group in GROUPS:
        mine = {name: each for name, each in found.items() if each[0].group == group}
        if not mine:
            continue
        rows = []
        for name, (claim, finding) in mine.items():
            ours = (f"{cell} times" if cell else "" for cell in (finding.up, finding.total))
            verdict = f"*{finding.verdict.value}*{by_abstract(claim)}{opponent.beside(name)}"
            rows.append([f"[{claim.title}](#{name})", *ours, opponent.times_of(name), verdict])
        head = "claim | ours, up | ours, both ways | times the data, by its own numbers | verdict"
        lines += ["", f"## {group.capitalize()}", "", markdown(head, rows)]
        for name, (claim, finding) in mine.items():
            lines += ["", f"### {name}", "", f"**{claim.title}**", ""]
            lines += section(name, claim, finding)
    return "\n".join(lines)


def section(name: str, claim: Claim, finding: Finding) -> list[str]:
    """What is said, by whom, how we know; what we did; what came out."""
    seeds = f"; seeds {', '.join(map(str, claim.seeds))}" if len(claim.seeds) > 1 else ""
    lacks = [f"- **Missing here.** {claim.lacks}"] if claim.lacks else []
    return [
        *([f"- **Claim.** {claim.says}"] if claim.says else []),
        quoted(claim),
        f"- **Source.** {claim.source} ({KNOWN[claim.known]}).",
        f"- **Here.** {claim.ours}",
        *lacks,
        f"- **Chosen.** {claim.chosen}",
        f"- **Command.** `python -m experiments.audit {name}`{seeds}",
        f"- **Verdict: {finding.verdict.value}{by_abstract(claim)}.** {finding.words}",
        *opponent.line_of(name),
    ]


def quoted(claim: Claim) -> str:
    """The sentence with its address, or why there is none."""
    if claim.quote:
        where = claim.quoted_from or f"abstract, {ARXIV.findall(claim.source)[0]}"
        return f"- **Quote.** “{claim.quote}” ({where})"
    return f"- **Quote.** None: {UNQUOTED[claim.known]}."


def by_abstract(claim: Claim) -> str:
    """What stands beside a verdict if the claim was read in an abstract, or in others' words."""
    return {"abstract": ", by its abstract", "quoted": ", as others quote it"}.get(claim.known, "")


def counted(found: Found) -> Counter[Verdict]:
    """How many claims have which verdict."""
    return Counter(finding.verdict for _, finding in found.values())


def seeds(found: Found, least: int) -> int:
    """How many claims have so many seeds or more."""
    return sum(len(claim.seeds) >= least for claim, _ in found.values())


def write(found: Found, page: Path = PAGE, picture: Path = PICTURE) -> None:
    """Put the report between the two marks of the page, and draw the picture."""
    write_between(page, BEGIN, END, report(found))
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(badge(found), encoding="utf-8")


def badge(found: Found) -> str:
    """A row of boxes as SVG: how many claims have which verdict."""
    counts, x, boxes = counted(found), 0, []
    for verdict in Verdict:
        words = f"{counts[verdict]} {verdict.value}"
        width = 14 + 7 * len(words)
        boxes.append(
            f'<rect x="{x}" width="{width}" height="24" fill="{COLOURS[verdict]}"/>'
            f'<text x="{x + width / 2:g}" y="16.5">{words}</text>'
        )
        x += width
    counted_words = ", ".join(f"{counts[v]} {v.value}" for v in Verdict)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x}" height="24" role="img" '
        f'aria-label="{len(found)} published claims: {counted_words}">\n'
        f'<g font-family="Verdana, DejaVu Sans, sans-serif" font-size="12" fill="#fff" '
        f'text-anchor="middle">\n' + "\n".join(boxes) + "\n</g>\n</svg>\n"
    )
