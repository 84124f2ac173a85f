"""The manifests for Kubernetes: valid for the API's schema, and their shell lines do
what they say.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_vnc_use.report.results import ItemResult, session_results, write_results
from support.ci_jobs import Machine, empty_machine
from support.paths import EXAMPLES
from support.vnc_servers import require_package

DIRECTORY = EXAMPLES / "many_machines"
MANIFESTS = sorted(DIRECTORY.glob("kubernetes*.yaml"))
VERSION = "1.33"
"""The oldest that has all of it without a feature gate: sidecars and the limit of
retries for each index.
"""


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def job(name: str) -> dict[str, Any]:
    return next(
        document
        for document in documents(DIRECTORY / name)
        if document["kind"] == "Job"
    )


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_manifest_is_valid_for_schema_of_api(file: Path) -> None:
    validator = require_package("kubernetes_validate")
    for document in documents(file):
        validator.validate(document, VERSION, strict=True)


def test_number_of_pods_is_same_everywhere() -> None:
    spec = job("kubernetes.yaml")["spec"]
    (tests,) = spec["template"]["spec"]["containers"]
    (pods,) = job("kubernetes-gather.yaml")["spec"]["template"]["spec"]["containers"][
        0
    ]["env"]
    splits = re.search(r"--splits (\d+)", tests["args"][0])
    assert splits
    assert {
        spec["completions"],
        spec["maxFailedIndexes"],
        int(splits[1]),
        int(pods["value"]),
    } == {spec["parallelism"]}


def carried_out(machine: Machine, container: dict[str, Any], **variables: str) -> int:
    """Run what a container does, with /results in the working directory."""
    script = (
        container["args"][0].replace("/results", "results").replace("=/work", "=work")
    )
    return machine.run((*container["command"],), script, variables)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pods", "code", "said"),
    [
        (3, 0, "3 passed in 3 of 3 jobs"),
        (4, 1, "'3' must have one vnc-results.json below it"),
    ],
    ids=["all", "one is missing"],
)
def test_results_of_all_pods_are_gathered(
    tmp_path: Path, pods: int, code: int, said: str
) -> None:
    machine = empty_machine(tmp_path)
    (report,) = job("kubernetes-gather.yaml")["spec"]["template"]["spec"]["containers"]
    for pod in range(3):
        results = session_results(
            "2026-01-01", "2026-01-02", [ItemResult(f"t.py::test_{pod}", "passed")]
        )
        write_results(machine.clone / f"{pod}" / "runs" / "vnc-results.json", results)
    assert carried_out(machine, report, PODS=str(pods)) == code, machine.said
    assert said in machine.said
    assert (machine.clone / "report" / "index.html").exists() or code
