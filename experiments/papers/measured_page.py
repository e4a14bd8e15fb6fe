"""Page that compares predicted with measured times, written from the tables of a measured run.

    dsascape calibrate --out experiments/measured/host.yaml
    dsascape run experiments/measured/cpu.yaml --out out/measured
    python -m dsascape.experiments.papers.measured_page --from out/measured docs/measured.md

``--from`` first copies the run's tables into ``experiments/measured``, or the folder that ``--tables`` names; without
it the page is written from the tables already there. ``experiments/measured/policies`` has the tables of
``policies.yaml``; those of ``gpu.yaml`` go to a folder of their own likewise.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dsascape.experiments.papers.measured_fusion import BASELINE, ELSEWHERE, fused_kernels
from dsascape.experiments.real.accuracy import kendall, mape, regret, spearman

TABLES = Path(__file__).parents[1] / "measured"
_POINTS, _KERNELS = "results.csv", "kernels.csv"
_SETTINGS = {"tuning.threads": "threads", "hardware": "machine"}
"""Columns by which a network is run several times under one policy, in order of precedence, with their headings."""
_MOST_WORST = 20


def page(folder: Path = TABLES) -> str:
    """Return the page as Markdown, from the tables in ``folder``."""
    points, kernels = pd.read_csv(folder / _POINTS), pd.read_csv(folder / _KERNELS)
    kernels = kernels.dropna(subset=["measured_s", "predicted_s"])
    points = points.dropna(subset=["measured_s"])
    facts = json.loads(str(points["device_facts"].iloc[0]))
    versions = ", ".join(f"{name} {number}" for name, number in sorted(facts["versions"].items()))
    days = sorted({str(moment)[:10] for moment in points["measured_at"]})
    lines = [
        "# Predicted beside measured",
        "",
        f"{facts['processor']} ({facts['architecture']}), {facts['cores']} cores, on {' and '.join(days)}; {versions}.",
        *_machines(points),
        "What is compared, and how it is measured: [real code, and what is measured of it](measure.md), which says how",
        "this page is made.",
        "",
        *_summary(points, kernels),
        "",
        "## Networks",
        "",
        *_table(_networks(points)),
        "",
        *_which_plan(_choices(points)),
        "## Kernels that are off by the most time",
        "",
        *_table(_worst(kernels)),
        "",
        *_intensive(kernels),
    ]
    return "\n".join(lines)


def _which_plan(choices: pd.DataFrame) -> list[str]:
    """Return the section on the plans that would be chosen; nothing where no network has several."""
    if choices.empty:
        return []
    return [
        "## Which plan",
        "",
        "Regret is the time of the plan that the simulator would choose by that of the really fastest, less one.",
        "",
        *_table(choices.assign(regret=lambda frame: frame["regret"].map("{:.1%}".format))),
        "",
    ]


def _machines(points: pd.DataFrame) -> list[str]:
    """Return the lines on the hardware specs that predicted the times."""
    names = sorted({str(name) for name in points["hardware"]})
    if names != ["host"]:
        return [f"The machine that predicts: {', '.join(f'`{name}`' for name in names)}."]
    return [
        "The machine is described by [host.yaml](../experiments/measured/host.yaml), which `dsascape calibrate` has",
        "made with small kernels; no network has calibrated it.",
    ]


def _setting(frame: pd.DataFrame) -> str:
    return next(name for name in _SETTINGS if name in frame)


def _summary(points: pd.DataFrame, kernels: pd.DataFrame) -> list[str]:
    predicted, measured = list(kernels["predicted_s"]), list(kernels["measured_s"])
    whole = mape(list(points["latency_s"]), list(points["measured_s"])) or 0.0
    choices = _choices(points)
    regrets = [] if choices.empty else [f"- largest regret: {choices['regret'].max():.1%}"]
    busy, unsure = (points["warnings"].astype(str).str.contains(word).sum() for word in ("busy", "known less well"))
    ranks = spearman(predicted, measured) or 0.0, kendall(predicted, measured) or 0.0
    return [
        f"- {len(kernels)} kernels: mean error {mape(predicted, measured) or 0.0:.1%}, rank correlation {ranks[0]:.3f}"
        f" (Spearman), {ranks[1]:.3f} (Kendall)",
        f"- {len(points)} runs of whole networks: mean error {whole:.1%}",
        *regrets,
        f"- {busy} of {len(points)} runs began on a busy machine, which makes measured times longer; {unsure} have"
        " medians that are known less well than wanted",
    ]


def _networks(points: pd.DataFrame) -> pd.DataFrame:
    error, setting = points["latency_s"] / points["measured_s"] - 1, _setting(points)
    return pd.DataFrame({
        "network": points["model"], "policy": points["policy"], _SETTINGS[setting]: points[setting],
        "measured [ms]": (points["measured_s"] * 1e3).map("{:.3f}".format),
        **({"spread": points["measured_spread"].map("{:.1%}".format)} if "measured_spread" in points else {}),
        "predicted [ms]": (points["latency_s"] * 1e3).map("{:.3f}".format), "error": error.map("{:+.1%}".format),
        "kernels: mean error": points["mape"].map("{:.1%}".format),
        "Spearman": points["spearman"].map("{:.3f}".format), "Kendall": points["kendall"].map("{:.3f}".format),
        "correct": points["is_correct"].map(lambda value: "yes" if value else "no"),
    })  # fmt: skip


def _choices(points: pd.DataFrame) -> pd.DataFrame:
    """Return the plans that are chosen and the fastest ones, of networks that were measured with several."""
    rows, setting = [], _setting(points)
    for (model, value), own in points.groupby(["model", setting], sort=False):
        if own["policy"].nunique() == 1:
            continue
        predicted = dict(zip(own["policy"], own["latency_s"], strict=True))
        measured = dict(zip(own["policy"], own["measured_s"], strict=True))
        lost = regret(predicted, measured)
        rows.append({
            "network": model, _SETTINGS[setting]: value, "chosen": min(predicted, key=lambda name: predicted[name]),
            "fastest": min(measured, key=lambda name: measured[name]), "regret": lost or 0.0,
        })  # fmt: skip
    return pd.DataFrame(rows)


def _worst(kernels: pd.DataFrame) -> pd.DataFrame:
    missed = (kernels["predicted_s"] - kernels["measured_s"]).abs().sort_values(ascending=False, kind="stable")
    setting = _setting(kernels)
    own = kernels.loc[missed.index[:_MOST_WORST]]
    parts = [str(name) for name in own if str(name).startswith("predicted_parts_s.")]
    micro = {name: (own[name] * 1e6).map(lambda value: "" if pd.isna(value) else f"{value:.1f}") for name in parts}
    return pd.DataFrame({
        "network": own["model"], "policy": own["policy"], _SETTINGS[setting]: own[setting], "kernel": own["kernel"],
        "measured [µs]": (own["measured_s"] * 1e6).map("{:.1f}".format),
        "predicted [µs]": (own["predicted_s"] * 1e6).map("{:.1f}".format),
        "error": (own["predicted_s"] / own["measured_s"] - 1).map("{:+.0%}".format),
        **{f"{name.rpartition('.')[2]} [µs]": micro[name] for name in parts},
    })  # fmt: skip


def _intensive(kernels: pd.DataFrame) -> list[str]:
    """Return the section on kernels with several complex operators, if there are any."""
    fused = fused_kernels(kernels, _setting(kernels))
    if not fused:
        return []
    rows = [
        {
            "network": each.network, "policy": each.policy, "complex operators": ", ".join(each.operators),
            "measured": f"{each.measured_gain:.2f}", "predicted": f"{each.predicted_gain:.2f}",
            **{name: f"{each.gain_elsewhere[name]:.2f}" for name in ELSEWHERE},
        }
        for each in fused
    ]  # fmt: skip
    measured, predicted = [e.measured_gain for e in fused], [e.predicted_gain for e in fused]
    error, rank = mape(predicted, measured) or 0.0, spearman(predicted, measured) or 0.0
    right = sum((a > 1) == (b > 1) for a, b in zip(measured, predicted, strict=True))
    return [
        "## Intensive fusion",
        "",
        f"Kernels that hold several complex operators, each against the kernels of `{BASELINE}` that it replaces:",
        "how many times as fast it is, measured and predicted here, and predicted for machines with smaller caches.",
        f"Of {len(fused)} predictions, {right} say rightly whether it pays; mean error of the gain {error:.1%}, rank",
        f"correlation (Spearman) {rank:.2f}.",
        "",
        *_table(pd.DataFrame(rows)),
        "",
    ]


def _table(frame: pd.DataFrame) -> list[str]:
    """Return a table as Markdown."""
    heads = [str(name) for name in frame]
    rows = [f"| {' | '.join(map(str, row))} |" for row in frame.itertuples(index=False, name=None)]
    return [f"| {' | '.join(heads)} |", f"|{'|'.join([' --- '] * len(heads))}|", *rows]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or print it; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.md", help="default: print")
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="DIR", help="default: experiments/measured")
    parser.add_argument("--from", type=Path, dest="folder", metavar="DIR", help="folder of a measured run")
    arguments = parser.parse_args(argv)
    if arguments.folder is not None:
        arguments.tables.mkdir(parents=True, exist_ok=True)
        for name in (_POINTS, _KERNELS):
            shutil.copyfile(arguments.folder / name, arguments.tables / name)
    if arguments.out is None:
        sys.stdout.write(page(arguments.tables))
    else:
        arguments.out.write_text(page(arguments.tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
