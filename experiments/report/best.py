"""Answers to "which is best?": sentences and the front, of points within constraints and of designs over networks."""

from collections.abc import Sequence

import pandas as pd

from dsascape.experiments.question.combined import GEOMETRIC, MAXIMISED, WORDS
from dsascape.experiments.question.constraints import read_constraints
from dsascape.experiments.report.frames import Axes, feasible, names_in, pareto_front, usable
from dsascape.experiments.report.together import Together
from dsascape.experiments.report.words import enumeration, meaning, quantity, scale_of, setting, significant
from dsascape.wording import count

_MOST_WEIGHTS = 4
_MOST_MACHINES = 3
_MOST_FRONTS = 2
_SAME_UNIT = 1000
"""Ratio of figures above which each has a unit of its own."""


def limits_text(constraints: Sequence[str]) -> str:
    """Return constraints as a phrase, such as ``within area_mm2 <= 20``; empty for none."""
    return f"within {enumeration(list(constraints))}" if constraints else ""


def complete(frame: pd.DataFrame, objectives: Sequence[str]) -> pd.DataFrame:
    """Return the points or designs that ran, keep all constraints and have every objective."""
    own = frame.loc[(frame["error"] == "") & (frame["violates"] == "")]
    return own.dropna(subset=list(objectives))


def front_of(frame: pd.DataFrame, objectives: Sequence[str]) -> pd.DataFrame:
    """Return the Pareto front among points or designs that keep all constraints, best in the first objective first."""
    own = complete(frame, objectives)
    front = own.loc[pareto_front(own, objectives)]
    return front.sort_values(objectives[0], ascending=objectives[0] not in MAXIMISED, kind="stable")


def nothing_feasible(points: pd.DataFrame, constraints: Sequence[str], axes: Axes) -> str:
    """Return a sentence for a study where points ran and none keeps the constraints; empty for other studies."""
    ran = usable(points)
    if not constraints or ran.empty or (ran["violates"] == "").any():
        return ""
    limits = read_constraints(constraints)
    rows = ran.to_dict("records")
    worst = [max(each.excess({str(name): value for name, value in row.items()}) for each in limits) for row in rows]
    nearest = ran.iloc[worst.index(min(worst))]
    where = setting(nearest, axes)
    beyond = [each for each in limits if each.text in str(nearest["violates"]).split(", ")]
    figures = [f"{meaning(each.figure)[0]} {_quantity(nearest[each.figure], each.figure)}" for each in beyond]
    return (
        f"Of {count(len(ran), 'point')} none keeps {enumeration(list(constraints))}. The nearest is"
        f" {nearest['network']} on {nearest['hardware']}, {nearest['policy']}{f' at {where}' if where else ''}"
        f" ({', '.join(figures)})."
    )


def infeasible_sentence(points: pd.DataFrame, constraints: Sequence[str]) -> str:
    """Return a sentence on how many points are beyond a constraint; empty where none is."""
    ran = usable(points)
    beyond = int((ran["violates"] != "").sum())
    if not beyond or beyond == len(ran):
        return ""
    which = enumeration(list(constraints))
    return (
        f"{beyond:,} of {count(len(ran), 'point')} {'does' if beyond == 1 else 'do'} not keep {which};"
        f" {'it is' if beyond == 1 else 'they are'} marked, and never best."
    )


def best_machine(together: Together, objectives: Sequence[str], constraints: Sequence[str]) -> str:
    """Return the sentence that names the best machine for the set of networks, and its front."""
    designs, first = together.designs, objectives[0]
    front = front_of(designs, objectives)
    limits = limits_text(constraints)
    if front.empty:
        kept = f" keeps {enumeration(list(constraints))} with all networks" if constraints else " ran with all networks"
        return f"No design of {len(designs):,}{kept}: there is no best machine for this set."
    best = front.iloc[0]
    words = meaning(first)[0]
    figures = f"{_quantity(float(best[first]), first)}{_over_base(best, together, first)}"
    said = [f"{_machine(best, together)}, {figures}"]
    if len(objectives) > 1:
        others = [f"{meaning(name)[0]} {_quantity(float(best[name]), name)}" for name in objectives[1:]]
        said.append(f"with {enumeration(others)}")
    on_front = f"; {len(front):,} of {count(len(designs), 'design')} on the front" if len(objectives) > 1 else ""
    return (
        f"Best machine for this set of {count(len(together.weights), 'network')}, by {WORDS[together.how]} of {words}"
        f"{f', {limits}' if limits else ''}: {' '.join(said)}{on_front}."
    )


def front_sentence(
    points: pd.DataFrame, objectives: Sequence[str], axes: Axes, constraints: Sequence[str] = ()
) -> str:
    """Return a sentence on what is best: the Pareto front of each network, of points that keep the constraints."""
    compared = [name for name in objectives if name in points]
    ran = feasible(points).dropna(subset=compared)
    if ran.empty or not compared:
        return ""
    networks = names_in(ran, "network")
    told = [_front_of(ran.loc[ran["network"] == name], name, compared, axes) for name in networks[:_MOST_FRONTS]]
    rest = len(networks) - _MOST_FRONTS
    more = f"; and those of {count(rest, 'further network')}" if rest > 0 else ""
    opening = "The best found" if len(compared) == 1 else "The front found"
    limits = f" {limits_text(constraints)}" if constraints else ""
    return f"{opening}, by {enumeration([meaning(name)[0] for name in compared])}{limits}: {'; '.join(told)}{more}."


def _front_of(own: pd.DataFrame, network: str, objectives: Sequence[str], axes: Axes) -> str:
    front = own.loc[pareto_front(own, objectives)]
    size = f"{len(front):,} of {count(len(own), 'point')}"
    if len(front.drop_duplicates(list(objectives))) == 1:
        only = front.iloc[0]
        where = setting(only, axes)
        figures = [quantity(float(only[name]), meaning(name)[1]) for name in objectives]
        return f"{network}, {only['policy']}{f' at {where}' if where else ''} ({', '.join(figures)}; {size})"
    return f"{network}, {size} ({', '.join(_range(front[name], name) for name in objectives)})"


def _range(values: pd.Series, name: str) -> str:
    low, high = float(values.min()), float(values.max())
    divisor, unit = scale_of([low, high], meaning(name)[1])
    if significant(low / divisor) != significant(high / divisor) and high / divisor > _SAME_UNIT * low / divisor:
        return f"{quantity(low, meaning(name)[1])} to {quantity(high, meaning(name)[1])}"
    if significant(low / divisor) == significant(high / divisor):
        return f"{significant(low / divisor)} {unit}"
    return f"{significant(low / divisor)} to {significant(high / divisor)} {unit}"


def how_combined(together: Together) -> str:
    """Return a sentence that says how networks were combined, with their weights."""
    named = [f"{weight:g} for {name}" for name, weight in together.weights[:_MOST_WEIGHTS]]
    named += [f"{len(together.weights) - _MOST_WEIGHTS} more"] if len(together.weights) > _MOST_WEIGHTS else []
    base = "the base has no figures"
    if together.base:
        base = f"the base is {_machine(pd.Series(dict(together.base)), together)}"
    if together.how == GEOMETRIC:
        return (
            f"Figures of a design are weighted geometric means over the networks (weights: {', '.join(named)}), so a"
            f" ratio to the base does not depend on which network is long; {base}."
        )
    return f"Figures of a design are sums over the networks by weight ({', '.join(named)}); {base}."


def dtypes_warning(points: pd.DataFrame) -> str:
    """Return a warning if machines of the study compute the same network in different dtypes; empty otherwise."""
    ran = usable(points)
    dtypes = ran.groupby("hardware", sort=False)["dtype"].agg(lambda own: ", ".join(dict.fromkeys(own)))
    of_network = ran.groupby("model", sort=False)["dtype"].nunique()
    if len(set(dtypes)) <= 1 or of_network.max() <= 1:
        return ""
    of_dtype = {dtype: list(dtypes.index[dtypes == dtype]) for dtype in dict.fromkeys(dtypes)}
    each = [_computing(names, dtype) for dtype, names in of_dtype.items()]
    named = "; ".join(each) if each[2:] else enumeration(each)
    return (
        f"Careful: {named}. Their figures differ by the precision, too; state `dtype` for each network to compare the"
        " machines alone."
    )


def _computing(names: Sequence[str], dtype: str) -> str:
    """Return which machines compute in a dtype, the first ones by name."""
    rest = len(names) - _MOST_MACHINES
    told = [*names[:_MOST_MACHINES], f"{rest} more"] if rest > 0 else names
    return f"{enumeration(told)} {'compute' if names[1:] else 'computes'} in {dtype}"


def _machine(design: pd.Series, together: Together) -> str:
    axes = [name for name in together.axes if isinstance(design.get(name), str)]
    where = setting(design, axes)
    return f"{design['hardware']}{f' with {where}' if where else ''} under {design['policy']}"


def _over_base(design: pd.Series, together: Together, figure: str) -> str:
    """Return the figure in relation to the base: how many times as good it is."""
    base = together.base.get(figure)
    own = float(design[figure])
    if not isinstance(base, float) or not base or not own:
        return ""
    ratio = own / base if figure in MAXIMISED else base / own
    if figure == "latency_s":
        return f" ({significant(ratio)} \N{MULTIPLICATION SIGN} as fast as the base)"
    return f" ({significant(ratio)} \N{MULTIPLICATION SIGN} as good as the base)"


def _quantity(value: float, figure: str) -> str:
    return quantity(float(value), meaning(figure)[1])
