"""What the documentation asks of dcgm-exporter's series, asked of Prometheus's own engine."""

import json
import re
from pathlib import Path
from typing import Any

from tests.deploy.tools import ROOT, passes

PAGE = ROOT / "docs" / "deployment.md"


def asked(metric: str) -> str:
    (query,) = [
        query
        for query in re.findall(r"```promql\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
        if metric in query
    ]
    return str(query)


def dcgm(metric: str, gpu: int, value: int) -> dict[str, str]:
    """As dcgm-exporter tells it, under the name of whichever pod it takes for the owner."""
    labels = f'Hostname="a",UUID="GPU-{gpu}",device="nvidia{gpu}",gpu="{gpu}",modelName="H100"'
    return {"series": f"{metric}{{{labels}}}", "values": str(value)}


def rank_info(rank: int) -> dict[str, str]:
    labels = f'run="job",rank="{rank}",local_rank="{rank}",node="0",gpu_uuid="GPU-{rank}"'
    return {"series": f"traceml_rank_info{{{labels}}}", "values": "1"}


def holds(
    promtool: str, folder: Path, series: list[Any], query: str, found: dict[int, int]
) -> None:
    """The query gives each of these ranks this value, with the labels of the rank alone."""
    samples = [
        {
            "labels": rank_info(rank)["series"].removeprefix("traceml_rank_info"),
            "value": value,
        }
        for rank, value in found.items()
    ]
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": query, "eval_time": "0m", "exp_samples": samples}],
    }
    file = folder / "test.json"
    file.write_text(json.dumps({"tests": [test]}))
    passes(promtool, "test", "rules", file)


def test_the_utilisation_of_a_rank_s_gpu(promtool: str, tmp_path: Path) -> None:
    metric = "DCGM_FI_DEV_GPU_UTIL"
    series = [dcgm(metric, 0, 98), dcgm(metric, 1, 35), dcgm(metric, 7, 0)]
    again = {**dcgm(metric, 1, 35)}
    again["series"] = again["series"].replace('Hostname="a"', 'Hostname="a",pod="train-0"')
    series += [again, rank_info(0), rank_info(1)]
    holds(promtool, tmp_path, series, asked(metric), {0: 98, 1: 35})


def test_the_temperature_of_the_one_that_holds_the_others_back(
    promtool: str, tmp_path: Path
) -> None:
    metric = "DCGM_FI_DEV_GPU_TEMP"
    score = 'run_rank:traceml_straggler_score{run="job",rank="%d",node="0",group="8x1"}'
    scores = [{"series": score % 0, "values": "0.2"}, {"series": score % 1, "values": "3"}]
    series = [dcgm(metric, 0, 60), dcgm(metric, 1, 91), rank_info(0), rank_info(1), *scores]
    holds(promtool, tmp_path, series, asked(metric), {1: 91})
