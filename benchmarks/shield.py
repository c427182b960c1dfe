"""What the safety shield changes, and its speed.

python benchmarks/shield.py table NAVRL_CHECKPOINT [key=value ...]   # an hour on one CPU core, minutes on a GPU
python benchmarks/shield.py speed [cpu | cuda] [DRONES]   # actions per second in batches
python benchmarks/shield.py pilot policy.onnx   # import, memory and decisions of a drone's computer, on one core
"""

import os
import resource
import sys
import time
from statistics import median

DISTURBED = ("lidar_noise_m=0.03", "velocity_noise_mps=0.05", "latency_steps=1", "wind_mps2=0.5", "mass_range=0.1")
WORLDS = {
    "clean": [],
    "disturbed": [f"env.disturbance.{word}" for word in (*DISTURBED, "gain_range=0.2")],
    "fast obstacles": ["env.dyn.speed_mps=[1.5,3.0]"],
}
HULLS_M = (0.2, 0.3, 0.4)
SETTINGS = ["env.dynamics=quadrotor", "eval.map_seeds=3001-3016", "eval.num_drones=32", "eval.picture=false"]


def table(navrl, *words):
    import slipstream

    names = {"ours": "navigation", "LiDAR alone": "navigation_lidar", "NavRL's": navrl}
    print(
        "| policy | world | hull m | success | with shield | collisions | with shield | time s | with shield | changed |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, checkpoint in names.items():
        for world, settings in WORLDS.items():
            for hull_m in HULLS_M:
                given = [f"checkpoint={checkpoint}", f"env.body_radius_m={hull_m}", *SETTINGS, *settings, *words]
                off, on = (slipstream.evaluate(*given, f"shield={x}", log=lambda _: None) for x in ("off", "on"))
                cells = [f"{r[key]:.3f}" for key in ("success", "collision") for r in (off, on)]
                times = [f"{r['time_to_goal_s']:.1f}" for r in (off, on)]
                cells = [name, world, f"{hull_m:g}", *cells, *times, f"{100 * on['shielded']:.1f} %"]
                print(f"| {' | '.join(cells)} |", flush=True)


def speed(device="auto", drones=65_536):
    import torch

    from slipstream.sim.devices import resolve_device
    from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv

    device, drones = resolve_device(device), int(drones)
    env = NavigationEnv(drones, device=device, seed=1, config=NavigationConfig(num_worlds=8, shield=True))
    wanted = 4 * torch.rand(drones, 3, device=device) - 2
    env.step(wanted)
    run = lambda: env.shield.filter(wanted)  # noqa: E731
    run()
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            env.shield.filter(wanted)
        run = graph.replay
    times, clock = [], time.perf_counter
    if device.type == "cpu":
        torch.set_num_threads(1)
        clock = time.process_time  # a busy machine measures the same
    for _ in range(20):
        begin = clock()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - begin)
    best, half = (f"{drones / seconds:,.0f}" for seconds in (min(times), median(times)))
    unit = "s of one core" if device.type == "cpu" else "s"
    print(f"{device}: {half} actions/{unit} in the median of 20, at best {best}; {drones:,} drones")


def pilot(onnx, decisions=3000):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    begin = time.perf_counter()
    from slipstream.deploy import Cloud, Obstacles, Odometry, Pilot

    imported_s = time.perf_counter() - begin
    import numpy as np

    flown, rng, times = Pilot(onnx, shield=True), np.random.default_rng(0), []
    flown.fly_to([30.0, 0.0, 2.0])
    for k in range(decisions):
        now, tracked = k * flown.deployment.decision_s, rng.uniform(-6, 6, (80, 8))
        tracked[:, 6:] = 0.5, 1.0
        flown.receive(Odometry(now, [0.1 * rng.random(), 0, 2, 1, 0, 0, 1, 0, 0, 0]), now)
        flown.receive(Cloud(now, rng.normal(0, 2, (5000, 3))), now)
        flown.receive(Obstacles(now, tracked), now)
        begin = time.perf_counter()
        decision = flown.decide(now)
        times.append(1e3 * (time.perf_counter() - begin))
    assert decision.state == "fly"
    p50, p99 = np.quantile(times, (0.5, 0.99))
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"import {imported_s:.2f} s; {memory_mb:.0f} MB at most; a decision with shield, 5,000 points and 80 obstacles:"
    )
    print(
        f"{p50:.2f} ms in the median, {p99:.2f} ms at p99, {max(times):.1f} ms at most; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    commands = {"table": table, "speed": speed, "pilot": pilot}
    if len(sys.argv) < 3 and sys.argv[1:] != ["speed"] or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
