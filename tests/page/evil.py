"""Documents that attack the page through every text of theirs, and how to see that an attack worked."""

from typing import Any

IMAGE = '<img src=x onerror="window.hacked=1">'
SCRIPT = "</script><script>window.hacked=1</script>"
ATTRIBUTE = "\" autofocus onfocus=window.hacked=1 x='"
LINK = "javascript:window.hacked=1"
ALL = (IMAGE, SCRIPT, ATTRIBUTE, LINK, "{{7*7}} ${7*7}", "<svg onload=window.hacked=1>", "\u202eevil\u0000")

DOCUMENTS: list[dict[str, Any]] = [
    {
        "id": f"{text}{number}",
        "title": f"attack {number} {text} end",
        "payload": {"brand": text, text: text, f"number {text}": 7, "url": LINK, "deep": {text: [text]}},
    }
    for number, text in enumerate(ALL)
]

# Whatever the page makes, it never makes one of these.
_HARM = """() => {
  const found = [...document.querySelectorAll(
    'script:not([src^="/page/"]), iframe, object, embed, base, meta[http-equiv], img, form[action], [autofocus], style'
  )];
  for (const node of document.querySelectorAll('*'))
    for (const {name, value} of node.attributes)
      if (name.startsWith('on') || (/href|src|action|^data$/.test(name) && /^\\s*(javascript|data):/i.test(value)))
        found.push(node);
  const seen = found.map(node => node.outerHTML.slice(0, 200));
  return 'hacked' in window ? [...seen, 'a script of an attacker ran'] : seen;
}"""


def look_for_harm(page: Any) -> list[str]:  # noqa: ANN401
    """Return the elements of a page that only an attack could have made."""
    harm: list[str] = page.evaluate(_HARM)
    return harm
