"""Reads a page as a strict reader would: every tag closed, ids unique, links that lead
somewhere.
"""

from html.parser import HTMLParser

_VOID = {"meta", "br", "col", "img", "input", "link"}
# What HTML lets a start tag, or the end of what is around, close.
_CLOSED_BY = {
    "td": {"td", "th", "tr", "/tbody"},
    "th": {"td", "th", "tr", "/tbody"},
    "tr": {"tr", "/tbody"},
}


class Markup(HTMLParser):
    """`elements`: every start tag with its attributes; `text`: what is read; `errors`:
    what is wrong.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.errors: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.errors += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if len(dict(attrs)) < len(attrs):
            self.errors.append(f"<{tag}> has an attribute twice: {attrs}")
        self._close_for(tag)
        if tag not in _VOID:
            self._open.append(tag)

    def _close_for(self, tag: str) -> None:
        while self._open and tag in _CLOSED_BY.get(self._open[-1], ()):
            self._open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._close_for(f"/{tag}")
        if not self._open or self._open.pop() != tag:
            self.errors.append(f"</{tag}> closes something else, at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("style", "script"):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every element of this kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        """What every element says under this attribute."""
        return [
            str(attributes[attribute])
            for _, attributes in self.elements
            if attributes.get(attribute) is not None
        ]
