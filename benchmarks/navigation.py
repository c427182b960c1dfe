"""The tables of benchmarks/results/navigation-*.md: success against wall time of a run; two policies on maps 201-216.

python benchmarks/navigation.py curve RUN [PICTURE.png]
python benchmarks/navigation.py judge NAVRL_CHECKPOINT [CHECKPOINT]   # minutes on a GPU; an hour on two CPU cores
"""

import sys

from slipstream.algorithms.policy_file import load_policy
from slipstream.config.compose import load_evaluate
from slipstream.sim.devices import resolve_device
from slipstream.tasks.navigation import evaluation as evaluate
from slipstream.training.metrics_log import read_metrics
from slipstream.ui import figures
from slipstream.ui.tables import format_rate

MAPS = list(range(201, 217))
SERIES = {"350 standing obstacles": "eval/static_success", "350 standing + 80 moving": "eval/success"}


def curve(run, picture=None):
    rows = [row for row in read_metrics(run) if all(key in row for key in SERIES.values())]
    print("| wall time (s) | frames | success, standing only | success, 80 moving |\n|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['time_s']:.0f} | {row['frames'] / 1e6:.0f} M | {row['eval/static_success']:.3f} | {row['eval/success']:.3f} |"
        )
    if picture:
        print(draw(rows, picture))


def draw(rows, picture):
    """Success with its interval over wall time."""
    figure = figures.new_figure(8.0, 4.6)
    axes = figure.subplots()
    figures.style_axes(axes, ylabel="success")
    times = figures.metric_column(rows, "time_s")
    for (name, key), color in zip(SERIES.items(), figures.SERIES, strict=False):
        success, low, high = (figures.metric_column(rows, key + end) for end in ("", "_low", "_high"))
        axes.fill_between(times, low, high, color=color, alpha=0.16, linewidth=0)
        axes.plot(times, success, color=color, linewidth=2, marker="o", markersize=4.5, label=name)
    figures.time_axis(axes, float(times.max()))
    axes.set_ylim(-0.03, 1.03)
    figures.style_legend(axes, loc="best")
    return figures.finish_figure(figure, picture, "success on unseen maps against wall time")


def judge(theirs, ours=None):
    device = resolve_device("auto")
    print("| moving | dynamics | released policy | ours | difference, paired over maps |\n|---|---|---|---|---|")
    for moving in (0, 80):
        for dynamics in ("velocity_lag", "quadrotor"):
            world = [
                f"env_dyn.num_obstacles={moving}",
                f"env.dynamics={dynamics}",
                f"eval.map_seeds={MAPS}".replace(" ", ""),
            ]
            cfg = load_evaluate(world)
            flights = []
            for path in (theirs, ours):
                env = evaluate.evaluation_env(cfg.env, cfg.eval, device)
                policy = load_policy(path).build(env, device)
                flights.append(evaluate.fly(env, policy, cfg.eval.num_drones, record_paths=False))
            cells = [
                "{} ({} … {})".format(*(format_rate(r[f"success{end}"]) for end in ("", "_low", "_high")))
                for r in map(evaluate.summarize, flights)
            ]
            paired = evaluate.compare(flights[1], flights[0])
            difference = (
                f"{paired['difference']:+.3f} ({paired['difference_low']:+.3f} … {paired['difference_high']:+.3f})"
            )
            print(f"| {moving} | `{dynamics}` | {cells[0]} | {cells[1]} | {difference} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("curve", "judge"):
        sys.exit(__doc__)
    {"curve": curve, "judge": judge}[sys.argv[1]](*sys.argv[2:])
