"""The columns of this plugin in pytest-html's table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pytest_vnc_use.plugin.reporting import TriageColumns


def test_property_of_test_is_no_markup_in_columns() -> None:
    attached = {"triage": "<script>alert(1)</script>", "dollars": 0.5}
    cells = ["<td>Failed</td>", "<td>test_it</td>", "<td>1 s</td>"]
    failed: Any = SimpleNamespace(outcome="failed", vnc=attached)
    TriageColumns().pytest_html_results_table_row(failed, cells)
    assert cells[2:4] == [
        '<td class="col-triage">&lt;script&gt;alert(1)&lt;/script&gt;</td>',
        '<td class="col-cost">$0.5000</td>',
    ]
    heads = ["<th>Result</th>", "<th>Test</th>", "<th>Duration</th>"]
    TriageColumns().pytest_html_results_table_header(heads)
    assert heads[2] == '<th class="sortable" data-column-type="triage">Triage</th>'
