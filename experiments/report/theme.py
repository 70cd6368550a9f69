"""Colours of the report: one set of classes, a light and a dark meaning for each.

Series take the Okabe-Ito palette, which stays apart under every common kind of colour blindness;
the dark theme lightens the two hues that would sink into the background. Heat maps take two
scales that are straight lines through OKLab, so equal steps of a value look equally far apart.
Figures name classes only: the page gives them CSS variables, a file of its own explicit colours.
"""
from collections.abc import Callable, Sequence
from functools import cache

LEVELS = 24
N_SERIES = 8
LIGHT = {
    "bg": "#f6f7f9", "panel": "#ffffff", "ink": "#1a1d21", "soft": "#59626e", "line": "#d8dde3",
    "grid": "#e8ebef", "accent": "#0b62a8", "good": "#00734f", "bad": "#b14a00",
    "s0": "#0072b2", "s1": "#d55e00", "s2": "#009e73", "s3": "#b85a8f", "s4": "#e69f00",
    "s5": "#56b4e9", "s6": "#3c4148", "s7": "#a89500"}
DARK = {
    "bg": "#111418", "panel": "#1a1e24", "ink": "#e9ecf0", "soft": "#a3adb9", "line": "#363d47",
    "grid": "#2a3038", "accent": "#6cb8f2", "good": "#3ecf9b", "bad": "#ff9a52",
    "s0": "#4a9fe0", "s1": "#f07c2e", "s2": "#2fc49a", "s3": "#e08fbd", "s4": "#f0b030",
    "s5": "#9bd6ff", "s6": "#d0d5dc", "s7": "#f0e442"}
# Ends of the heat scales: `p` for what should be high (blues), `q` for uncertainty (ambers).
SCALES = {
    "p": {"light": ("#f1f6fb", "#0b3f78"), "dark": ("#222a35", "#a9d8ff")},
    "q": {"light": ("#fdf5e9", "#8a3b00"), "dark": ("#2f2820", "#ffc98a")}}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def _linear(channel: int) -> float:
    value = channel / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _rgb(colour: str) -> list[float]:
    return [_linear(int(colour[i:i + 2], 16)) for i in (1, 3, 5)]


def _to_oklab(colour: str) -> tuple[float, float, float]:
    r, g, b = _rgb(colour)
    roots = [(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3),
             (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3),
             (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)]
    u, v, w = roots
    return (0.2104542553 * u + 0.7936177850 * v - 0.0040720468 * w,
            1.9779984951 * u - 2.4285922050 * v + 0.4505937099 * w,
            0.0259040371 * u + 0.7827717662 * v - 0.8086757660 * w)


def _from_oklab(lab: Sequence[float]) -> str:
    light, a, b = lab
    u = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    v = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    w = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    rgb = (4.0767416621 * u - 3.3077115913 * v + 0.2309699292 * w,
           -1.2684380046 * u + 2.6097574011 * v - 0.3413193965 * w,
           -0.0041960863 * u - 0.7034186147 * v + 1.7076147010 * w)
    channels = []
    for value in rgb:
        value = min(max(value, 0.0), 1.0)
        value = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        channels.append(round(255 * value))
    return "#" + "".join(f"{c:02x}" for c in channels)


def mixed(first: str, last: str, share: float) -> str:
    """The colour at `share` of the way between two, straight through OKLab."""
    ends = zip(_to_oklab(first), _to_oklab(last), strict=True)
    return _from_oklab([a + share * (b - a) for a, b in ends])


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio of two colours, 1 to 21."""
    lums = sorted((0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (_rgb(one), _rgb(other))),
                  reverse=True)
    return (lums[0] + 0.05) / (lums[1] + 0.05)


@cache
def heat_colours(scale: str, theme: str) -> list[tuple[str, str]]:
    """(cell, text) for every level; the text is the readable one of near-black and white."""
    first, last = SCALES[scale][theme]
    cells = [mixed(first, last, i / (LEVELS - 1)) for i in range(LEVELS)]
    return [(cell, "#111418" if contrast("#111418", cell) >= contrast("#ffffff", cell)
             else "#ffffff") for cell in cells]


def variables(theme: str) -> str:
    """The theme as CSS declarations."""
    colours = LIGHT if theme == "light" else DARK
    lines = [f"--{name}:{value}" for name, value in colours.items()]
    for scale in SCALES:
        for i, (cell, ink) in enumerate(heat_colours(scale, theme)):
            lines += [f"--{scale}{i}:{cell}", f"--{scale}{i}t:{ink}"]
    return ";".join(lines)


def figure_rules(value: Callable[[str], str]) -> str:
    """CSS of the figures' classes; `value(name)` is a variable or a colour."""
    rules = [
        f".fig text{{font-family:{FONT};font-size:11px;fill:{value('ink')}}}",
        f".fig .m{{fill:{value('soft')}}}", ".fig .c{text-anchor:middle}",
        ".fig .e{text-anchor:end}", ".fig .b{font-weight:600}",
        ".fig .n,.fig .n text{font-size:9.5px}",
        f".fig .y{{stroke:{value('panel')};stroke-width:1;fill:none}}",
        ".fig .c text{text-anchor:middle}",
        f".fig .z{{stroke:{value('ink')};stroke-width:1.4;fill:none}}",
        ".fig .k{stroke-width:3;stroke-linecap:round;fill:none}",
        f".fig .a{{stroke:{value('soft')};stroke-width:1;fill:none}}",
        f".fig .g{{stroke:{value('grid')};stroke-width:1;fill:none}}",
        f".fig .d{{stroke:{value('soft')};stroke-width:1.2;stroke-dasharray:4 3;fill:none}}",
        ".fig .l{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}",
        ".fig .w{opacity:.16}",
        f".fig .v{{stroke:{value('line')};stroke-width:1.4;fill:none}}",
        f".fig .o{{stroke:{value('panel')};stroke-width:1}}"]
    for i in range(N_SERIES):
        colour = value(f"s{i}")
        rules += [f".fig .s{i}.l{{stroke:{colour}}}",
                  f".fig .s{i}.p,.fig .s{i}.w{{fill:{colour}}}"]
    for scale in SCALES:
        for i in range(LEVELS):
            rules += [f".fig .{scale}{i}{{fill:{value(f'{scale}{i}')}}}",
                      f".fig .{scale}{i}t text{{fill:{value(f'{scale}{i}t')}}}"]
    return "".join(rules)


@cache
def light_rules() -> str:
    """The figures' CSS with explicit light colours."""
    return figure_rules(light_value)


def light_value(name: str) -> str:
    """The explicit light colour behind a variable, for figures in files of their own."""
    if name in LIGHT:
        return LIGHT[name]
    scale, level, text = name[0], int(name[1:].rstrip("t")), name.endswith("t")
    return heat_colours(scale, "light")[level][text]
