"""Dead links: between the files of the repository, and in the built site."""
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ids, names and what is linked or loaded."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag != "base":
                self.targets.append(value)


def dead_in_site(site: Path) -> list[str]:
    """Sentences about links of built pages that lead nowhere in the site."""
    pages = {path.resolve(): _Page(path.read_text(encoding="utf-8"))
             for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for target in page.targets:
            link = urlsplit(target)
            if link.scheme or link.netloc or path.name == "404.html":
                continue
            goal = (path.parent / unquote(link.path)).resolve() if link.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            where = f"{path.relative_to(site.resolve())}: {target}"
            if not goal.is_file():
                dead.append(f"{where} is not there")
            elif link.fragment and goal in pages \
                    and unquote(link.fragment) not in pages[goal].anchors | {"__skip", "runs"}:
                dead.append(f"{where} has no such anchor")
    return dead


def fetched_by_site(site: Path) -> list[str]:
    """What built pages load from elsewhere: scripts, styles, fonts and pictures of a network."""
    tag = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^\s>]+"
                     r"|<link(?![^>]*rel=[\"']?(?:canonical|prev|next))[^>]*href=[\"']?"
                     r"(?:https?:)?//[^\s>]+")
    sheet = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\s]+")
    found = [f"{path.relative_to(site)}: {match[0][:120]}" for path in sorted(site.rglob("*.html"))
             for match in tag.finditer(path.read_text(encoding="utf-8"))]
    return found + [f"{path.relative_to(site)}: {match[0][:120]}"
                    for path in sorted(site.rglob("*.css"))
                    for match in sheet.finditer(path.read_text(encoding="utf-8"))]


def dead_in_repository(checkout: Path) -> list[str]:
    """The same for the Markdown files as they are read in the repository."""
    files = [*sorted(checkout.glob("*.md")), *sorted((checkout / "docs").glob("*.md"))]
    return [f"{path.relative_to(checkout)}: {target}" for path in files
            for target in _links(path.read_text(encoding="utf-8"))
            if not _lives(path, target)]


def _links(text: str) -> Iterator[str]:
    """Targets of Markdown links outside of code."""
    plain = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return (match[1] for match in re.finditer(r"\]\(([^)\s]+)\)", plain))


def _lives(path: Path, target: str) -> bool:
    link = urlsplit(target)
    if link.scheme:
        return True
    goal = (path.parent / link.path).resolve() if link.path else path
    if not goal.exists():
        return False
    return not link.fragment or link.fragment in headings(goal.read_text(encoding="utf-8"))


def headings(text: str) -> set[str]:
    """The anchors that a Markdown page's headings have."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    names = re.findall(r"^#+ +(.+?)\s*$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", name.lower())).replace(" ", "-")
            for name in names}
