"""The HTML page of a report, parsed as a browser does."""

import re
from html.parser import HTMLParser

from hypothesis import strategies as st

HOSTILE_TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        "</td><script>alert(1)</script>", "]]>", "&lt;b&gt;", '" onload="x', "\0\x1b[31m", "<!--",
        "'><svg onload=a>",
    ]
)  # fmt: skip


class Page(HTMLParser):
    """The texts and tags of a page, which must not contain scripts or external resources."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "iframe", "img", "link", "object", "a")
        assert not any(key.startswith("on") or key in ("src", "href") for key, _ in attrs)
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def shows(self, text: object) -> bool:
        """Return True if the page shows all words of a text."""
        words = re.findall(r"[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", str(text))
        full_text = "".join(self.texts)
        return all(word in full_text for word in words)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all tags with a name."""
        return [attributes for name, attributes in self.tags if name == tag]
