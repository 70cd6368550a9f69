"""Tables that people read."""
from engine.tables import aligned, spread


def test_spread_is_mean_and_sample_deviation():
    assert spread([1.0, 3.0]) == "2.00 ± 1.41"
    assert spread([1.0]) == "1.00" and spread([2.0, None], 1) == "2.0"
    assert spread([]) == spread([None, float("nan")]) == "-"


def test_columns_line_up():
    plain = aligned(["name", "x"], [["a", "1.00"], ["longer", "-"]]).splitlines()
    assert plain == ["name       x", "------  ----", "a       1.00", "longer     -"]
    marked = aligned(["n", "xx"], [["a", "1"]], markdown=True).splitlines()
    assert marked == ["| n | xx |", "| - | -: |", "| a |  1 |"]
