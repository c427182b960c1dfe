"""Complete trainings of the demo, plain, captured and compiled, with several seeds: does capture change the learning?

    python benchmarks/forms.py --device cuda --frames 10000000 --out forms      3 seeds of each form; table and picture

Each run is one process of `slipstream train preset=demo`; the curves are its evaluations on maps that it did not train
on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FORMS = {
    "plain": ["compile=off"],
    "graphs": ["compile=auto"],
    "compiled": ["compile=on"],
    "compiled, bf16": ["compile=on", "algo.bf16=true"],
}


def start(form: str, seed: int, args: argparse.Namespace, folder: Path) -> subprocess.Popen[bytes]:
    name = f"{form.replace(', ', '-')}-{seed}"
    words = [
        f"seed={seed}",
        f"device={args.device}",
        f"total_frames={args.frames}",
        "max_time_s=0",
        "quiet=true",
        "wandb.mode=disabled",
    ]
    command = [
        sys.executable,
        "-m",
        "slipstream",
        "train",
        "preset=demo",
        *words,
        *FORMS[form],
        f"root={folder}",
        f"name={name}",
    ]
    return subprocess.Popen(
        [*command, *args.more], stdout=subprocess.DEVNULL, stderr=(folder / f"{name}.err").open("wb")
    )


def curve(folder: Path, form: str, seed: int) -> list[tuple[float, float]]:
    """(frames, success) of a run's evaluations."""
    file = folder / f"{form.replace(', ', '-')}-{seed}" / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(row["frames"], row["eval/success"]) for row in rows if row.get("eval/success") is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--forms", nargs="*", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=3600, help="what has not ended by then is stopped; its curve so far counts"
    )
    parser.add_argument("--out", type=Path, default=Path("forms"))
    parser.add_argument("more", nargs="*", help="further key=value")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began, running = time.time(), []
    todo = [(form, seed) for form in args.forms for seed in range(args.seeds)]
    while (todo or running) and time.time() - began < args.seconds:
        running = [(label, process) for label, process in running if process.poll() is None]
        while todo and len(running) < args.parallel:
            label = todo.pop(0)
            running.append((label, start(*label, args, args.out)))
        time.sleep(0.5)
    for _, process in running:
        process.terminate()
    report(args)


def report(args: argparse.Namespace) -> None:
    seeds = range(args.seeds)
    found = {form: [curve(args.out, form, seed) for seed in seeds] for form in args.forms}
    (args.out / "curves.json").write_text(json.dumps(found))
    print("| form | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | frames to 0.5 |")
    print("|" + "---|" * (args.seeds + 3))
    for form, curves in found.items():
        last = [
            sum(y for _, y in points[-3:]) / max(1, len(points[-3:])) for points in curves
        ]  # of the last three evaluations
        half = ", ".join(next((f"{x / 1e6:.1f} M" for x, y in points if y >= 0.5), "never") for points in curves)
        print(
            f"| {form} | " + " | ".join(f"{value:.3f}" for value in last) + f" | {sum(last) / len(last):.3f} | {half} |"
        )
    try:
        print(draw(found, args.out / "forms.png"))
    except ImportError as error:
        print(f"no picture: {error}")


def draw(found: dict[str, list[list[tuple[float, float]]]], path: Path) -> Path:
    from slipstream.ui.figures import SERIES, new_figure, save_figure, style_axes, style_legend

    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    style_axes(axes, xlabel="million frames", ylabel="success on maps not trained on")
    for k, (form, curves) in enumerate(found.items()):
        for i, points in enumerate(curves):
            xs, ys = [x / 1e6 for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, color=SERIES[k % len(SERIES)], linewidth=1.4, alpha=0.85, label=form if i == 0 else None)
    style_legend(axes, loc="best")
    save_figure(figure, path)
    return path


if __name__ == "__main__":
    main()
