"""Count the secrets in a log. No secret is kept: examples are the forms of numbers, without digits and context."""

from collections import Counter
from collections.abc import Sequence

from clickvec.data.events import Events
from clickvec.data.secrets import KINDS, mask
from clickvec.doctor.finding import NOTHING, Finding, count_of, listed, percent

EXAMPLES = 5
_NAMES = {
    "email": ("e-mail address", "e-mail addresses"), "card": ("card number", ""), "ssn": ("social security number", ""),
    "phone": ("phone number", ""),
}  # fmt: skip


class SecretCounter:
    """Add the blocks of a log, then read what was found."""

    def __init__(self) -> None:
        self.lines = self.affected = 0
        self.kinds = Counter[str]()
        self._forms = Counter[str]()  # such as ###-###-####

    def add(self, events: Events) -> None:
        """Look for secrets in the queries of a block. Titles are not typed."""
        self.lines += len(events.queries)
        self.affected += len(self._search(events.queries))

    def _search(self, texts: Sequence[str]) -> set[int]:
        """Return the lines with a secret. Each distinct text is searched once: most are repeated."""
        distinct = list(dict.fromkeys(texts))
        masked, found = mask(distinct)
        if not found:
            return set()
        with_secret = {text for text, other in zip(distinct, masked, strict=True) if text is not other}
        rows = [row for row, text in enumerate(texts) if text in with_secret]
        self.kinds += mask([texts[row] for row in rows], self._forms)[1]
        return set(rows)

    def finding(self) -> Finding:
        """Report the secrets by kind, with masked examples."""
        numbers = {
            "lines": self.lines,
            "lines_with_secrets": self.affected,
            **{kind: self.kinds[kind] for kind in KINDS},
        }
        if not self.kinds:
            text = "No e-mail address and no phone, card or social security number was found."
            return Finding("secrets", "Secrets", text, NOTHING, numbers)
        kinds = listed([count_of(self.kinds[kind], *_NAMES[kind]) for kind in KINDS if self.kinds[kind]])
        text = f"{count_of(self.affected, 'line')} ({percent(self.affected, self.lines)}) hold what looks like {kinds}."
        examples = tuple(f"{form}: {count:,}" for form, count in self._forms.most_common(EXAMPLES))
        advice = (
            "Training masks them. If they are article numbers, give prepare or up --keep-secrets. Names and addresses "
            "are not recognised: look for them yourself."
        )
        return Finding("secrets", "Secrets", text, advice, numbers, examples, act=True)
