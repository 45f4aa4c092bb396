"""Why each layer became what it is, in a sentence."""

from collections.abc import Mapping, Sequence

from edgeopt.graph.accuracy import EQUAL_DB
from edgeopt.quant.plan.problem import Choices, Option, decibels
from edgeopt.quant.plan.search import Search
from edgeopt.quant.records import FLOAT, Layer, Sensitivity, Verdict

# Times below this are reported as negligible.
_SMALLEST_MS = 0.0005
_SHORT_MS = 0.01


def verdicts(
    layers: Sequence[Layer],
    search: Search,
    best: Choices,
    sensitivities: Sequence[Sensitivity],
    reasons: Mapping[str, str],
    *,
    timed: bool,
) -> tuple[Verdict, ...]:
    """One for every layer, in their order; `timed`: whether what they save was found on a backend."""
    costs = {(each.layer, each.form): each for each in sensitivities}
    places = {name: place for place, name in enumerate(search.problem.layers)}
    found = []
    for layer in layers:
        options = search.problem.options[places[layer.name]] if layer.name in places else ()
        known = [each for each in sensitivities if each.layer == layer.name]
        if layer.reason or not (options or known):
            why = layer.reason or reasons.get(layer.name) or "no scheme fits it on this backend"
            found.append(Verdict(layer.name, FLOAT, f"kept float: {why}"))
        elif not options:
            forms = _listed([each.form for each in known])
            found.append(Verdict(layer.name, FLOAT, f"kept float: its time in {forms} is unknown"))
        elif layer.name in best:
            option = next(each for each in options if each.form == best[layer.name])
            found.append(_changed(layer.name, option, costs[layer.name, option.form], timed=timed))
        else:
            found.append(_kept(layer.name, options, search, best, costs, timed=timed))
    return tuple(found)


def _changed(layer: str, option: Option, cost: Sensitivity, *, timed: bool) -> Verdict:
    alone = _alone(cost.snr_db)
    if not timed:
        text = f"{option.form}: {alone}"
    elif option.saves_ms > 0:
        text = f"{option.form}: saves {_ms(option.saves_ms)}, {alone}"
    else:
        slower = f"{_ms(-option.saves_ms)} slower itself, but it saves conversions next to it"
        text = f"{option.form}: {slower}, {alone}"
    return Verdict(layer, option.form, text, option.saves_ms if timed else None, cost.snr_db)


def _kept(
    layer: str,
    options: Sequence[Option],
    search: Search,
    best: Choices,
    costs: Mapping[tuple[str, str], Sensitivity],
    *,
    timed: bool,
) -> Verdict:
    """About the form that would save the most."""
    option = max(options, key=lambda each: (each.saves_ms, -float(each.noise.max(initial=0.0))))
    cost = costs[layer, option.form]
    why = _why(layer, option, search, best, timed=timed)
    return Verdict(layer, FLOAT, f"kept float: {why}", option.saves_ms if timed else None, cost.snr_db)


def _why(layer: str, option: Option, search: Search, best: Choices, *, timed: bool) -> str:
    form, problem = option.form, search.problem
    if timed and option.saves_ms <= 0:
        return (
            f"{form} is {_ms(-option.saves_ms)} slower here"
            if option.saves_ms < 0
            else f"{form} saves nothing here"
        )
    changed = {**best, layer: form}
    gained = problem.saved_ms(changed) - problem.saved_ms(best)
    if timed and gained <= 0:
        lost = _ms(option.saves_ms - gained)
        return f"{form} saves {_ms(option.saves_ms)}, but {lost} go into conversions next to float layers"
    alone = decibels(float((problem.base + option.noise).max(initial=0.0)))
    start = f"{form} saves {_ms(option.saves_ms)}, but" if timed else form
    run = search.result(changed)
    if not search.in_decibels:
        if run is not None:
            return f"{start} brings the metric to {run[1]:.4g}; the floor is {search.floor:.4g}"
        return f"{start} leaves {alone:.1f} dB alone; others save more time for their error"
    if alone < search.floor:
        return f"{start} leaves {alone:.1f} dB alone; the floor is {search.floor:g} dB"
    if run is not None:
        return f"{start} brings the outputs to {run[1]:.1f} dB; the floor is {search.floor:g} dB"
    now, then = (decibels(problem.worst(each) * search.scale) for each in (best, changed))
    if then < search.floor:
        return f"{start} costs {now - then:.1f} dB, with {max(now - search.floor, 0.0):.1f} dB left"
    return f"{start} costs {now - then:.1f} dB, and saves too little time for another run"


def _alone(snr_db: float) -> str:
    return "no loss" if snr_db >= EQUAL_DB else f"{snr_db:.1f} dB alone"


def _ms(time_ms: float) -> str:
    """To the microsecond, which is what layers differ by."""
    if time_ms < _SMALLEST_MS:
        return f"less than {_SMALLEST_MS * 1e3:g} µs"
    if time_ms < _SHORT_MS:
        return f"{time_ms * 1e3:.1f} µs"
    return f"{time_ms:.3f} ms" if time_ms < 1 else f"{time_ms:.2f} ms"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
