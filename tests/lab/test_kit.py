"""The reporting kit: every block in both forms, text that stays text, and tables that keep their alignment."""

import json
from math import inf, nan

from equipoise.lab.report import kit

NASTY = "<b>&'\""
SAFE = "&lt;b&gt;&amp;&#x27;&quot;"


def test_every_block_has_both_forms() -> None:
    assert kit.heading("A", 3) == ("<h3>A</h3>", "### A")
    assert kit.paragraph("has ", kit.Bold("b"), kit.Code("c"), kind="quiet") == (
        "<p class='quiet'>has <b>b</b><code>c</code></p>",
        "has **b**`c`",
    )
    assert kit.items([("a",), (kit.Bold("b"),)]) == ("<ul>\n<li>a</li>\n<li><b>b</b></li>\n</ul>", "- a\n- **b**")
    assert kit.items([("a",)], ordered=True) == ("<ol>\n<li>a</li>\n</ol>", "1. a")
    assert kit.quote("a\nb") == ("<blockquote>a<br>b</blockquote>", "> a\n> b")
    assert kit.listing("x = 1") == ("<pre>x = 1</pre>", "```sh\nx = 1\n```")
    picture = kit.picture(
        '<?xml?><svg xmlns="x" width="9pt" viewBox="0 0 1 1"><metadata>m</metadata></svg>', "T", "t.png"
    )
    assert picture.markdown == "![T](t.png)"
    assert picture.html.startswith('<figure><svg viewBox="0 0 1 1" role="img" aria-label="Figure: T"')
    assert "metadata" not in picture.html and "xmlns" not in picture.html


def test_text_is_never_markup() -> None:
    table = kit.Table([NASTY], [[NASTY]])
    blocks: list[kit.Block | kit.Table] = [
        kit.heading(NASTY),
        kit.paragraph(NASTY, kit.Bold(NASTY)),
        kit.items([(NASTY,)]),
        kit.quote(NASTY),
        table,
    ]
    page = kit.page(NASTY, [*blocks, kit.listing(NASTY)])
    assert NASTY not in page and page.count(SAFE) == 9


def test_long_lines_are_wrapped_in_markdown_alone() -> None:
    block = kit.paragraph("counterfactual-balancing " * 20)
    assert "\n" not in block.html
    assert all(len(line) <= kit.LINE and not line.endswith("-") for line in block.markdown.splitlines())


def test_tables_keep_alignment_and_marks_in_both_forms() -> None:
    sentence = "a sentence of more than thirty characters"
    table = kit.Table(("a", "b", "c", "d"), [("1", "2", "x|y", sentence)], left=(0, 2, 3), marks={0: "bad"})
    assert table.markdown == f"| a | b | c | d |\n| --- | ---: | --- | --- |\n| 1 | 2 | x\\|y | {sentence} |"
    assert "<tr class='bad'><th scope='row'>1</th><td>2</td><td class='text'>x|y</td>" in table.html
    assert f"<td class='text long'>{sentence}</td>" in table.html
    assert kit.settings_table([("sizes", [1, 2]), ("seed", 0)]).rows == [("sizes", "1, 2"), ("seed", "0")]


def test_a_section_begins_at_each_heading_of_level_2() -> None:
    page = kit.page("T", [kit.heading("T", 1), kit.heading("A"), kit.heading("B", 3), kit.heading("C")])
    assert page.count("<section>") == page.count("</section>") == 3
    assert kit.markdown([kit.heading("T", 1), kit.paragraph("x")]) == "# T\n\nx\n"


def test_json_has_null_for_numbers_that_json_lacks() -> None:
    assert json.loads(kit.json_text({"a": [nan, (1.0, -inf)], "b": "ü"})) == {"a": [None, [1.0, None]], "b": "ü"}
