# %% [markdown]
# # From a model to a bundle
#
# This notebook takes the built-in sample, a network that reads handwritten digits, and finds the fastest way to
# run it on this device. It takes less than a minute. Replace `MODEL` and `DATA` with your own model and data.
#
# It needs edgeopt with its optimizer and one runtime: `pip install '.[optimize,cpu]'` in a checkout. The same
# steps run as a program: `python optimize.py`.

# %%
import html
from collections.abc import Mapping

import numpy as np

import edgeopt
from edgeopt.data.demo import DATA, MODEL
from edgeopt.events import Event, Progress, Standing

# %% [markdown]
# ## The device
#
# The probe's record. The last lines say whether the device is quiet enough for measurements.

# %%
device = edgeopt.probe()
device

# %% [markdown]
# ## The model
#
# `profile_ops=True` measures the time of each layer too. Click on a title to see its table.

# %%
analysis = edgeopt.analyze(MODEL, data=DATA, profile_ops=True)
analysis


# %%
class Bars:
    """A bar for each name."""

    def __init__(self, values: Mapping[str, float], unit: str) -> None:
        self.values, self.unit = values, unit

    def _repr_html_(self) -> str:
        maximum = max(self.values.values(), default=1.0)
        rows = (
            f'<tr><td style="text-align: left">{html.escape(name)}</td><td>{value:.3g} {self.unit}</td>'
            f'<td style="text-align: left"><div style="width: {300 * value / maximum:.0f}px; height: 0.9em; '
            f'background: #2f8fb0"></div></td></tr>'
            for name, value in self.values.items()
        )
        return f"<table>{''.join(rows)}</table>"


layers = next(times for times in analysis.op_times if times.rows)
slowest = sorted(layers.rows, key=lambda row: -row.time_ms)[:10]
Bars({row.kernel: row.time_ms * 1000 for row in slowest}, "µs")

# %% [markdown]
# ## The search
#
# `emit` is called with each event: here one line for the phase, and one for each candidate that is decided.


# %%
def show(event: Event) -> None:
    if isinstance(event, Progress):
        print(f"\r{event.phase}: {event.message}"[:100].ljust(100), end="")
    elif isinstance(event, Standing) and event.reason:
        print(f"\r{event.status}: {event.candidate}: {event.reason}"[:100].ljust(100))


outcome = edgeopt.optimize(MODEL, "digits.edgeopt", data=DATA, time_limit_s=20, emit=show)
outcome

# %% [markdown]
# ## The candidates
#
# How many times as fast as plain ONNX Runtime each one is. The fastest may lose: see its verdict in the table.

# %%
raced = {each.candidate.name: each.speedup.median for each in outcome.candidates if each.speedup}
Bars(dict(sorted(raced.items(), key=lambda pair: -pair[1])), "x")

# %% [markdown]
# ## The bundle
#
# It runs with the backend and the options that it was proved with.

# %%
with edgeopt.load("digits.edgeopt") as session, np.load(DATA) as samples:
    outputs = session.run(samples[session.inputs[0].name][0])
{name: int(array.argmax()) for name, array in outputs.items()}
