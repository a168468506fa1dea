"""Reads the HTML pages of reports as strictly as no browser does."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "path", "use", "rect", "line", "br", "img", "link", "input", "wbr"}


class PageReader(HTMLParser):
    """Checks that tags nest, and collects text, attributes and ids."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
