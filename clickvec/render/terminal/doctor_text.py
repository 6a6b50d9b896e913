"""What `clickvec doctor` prints: each finding as a paragraph with what to do next."""

from clickvec.doctor.examination import Examination
from clickvec.doctor.finding import Finding
from clickvec.render.terminal.screen import Screen, clip, joined
from clickvec.text.printable import clean

LABEL = 18  # columns of the headings
EXAMPLES = 3
LONGEST = 300  # characters of a bad line


def show_examination(examination: Examination, screen: Screen, *, everything: bool = False) -> str:
    """Return all findings. Examples are shown where there is something to do, or with `everything`.

    A command has a line of its own that is not wrapped, so that it can be pasted.
    """
    act = sum(finding.act for finding in examination.findings)
    need = "needs" if act == 1 else "need"
    to_do = f"{act} of {len(examination.findings)} findings {need} attention{' (marked with !)' if act else ''}."
    head = f"{clean(examination.source)}: examined in {examination.seconds:.0f} s. {to_do}"
    sampled = f"Damaged texts, languages, shared words, spelling and unseen words are from {examination.sampled}."
    foot = f"{sampled} All other counts are exact."
    lines = [line for finding in examination.findings for line in _finding(finding, screen, everything)]
    return joined([screen.wrap(head), lines, screen.wrap(foot)])


def _finding(finding: Finding, screen: Screen, everything: bool) -> list[str]:
    room = Screen(screen.columns - LABEL)
    label = f"{'!' if finding.act else ' '} {finding.heading}"
    lines = room.wrap(clean(finding.text))
    examples = finding.examples if finding.act or everything else ()
    examples = examples[: None if everything else EXAMPLES]
    narrow = Screen(room.columns - 2)
    lines += [f"  {part}" for line in finding.lines for part in narrow.wrap(clip(line, LONGEST))]
    lines += [f"  {clip(example, room.columns - 2)}" for example in examples]
    lines += [
        f"{'   ' if at else '-> '}{line}" for at, line in enumerate(Screen(room.columns - 3).wrap(finding.advice))
    ]
    lines += [f"   {clean(finding.cure)}"] if finding.cure else []
    first, *others = lines
    heading = screen.strong(label.ljust(LABEL)) if finding.act else label.ljust(LABEL)
    return [heading + first, *(" " * LABEL + line for line in others)]
