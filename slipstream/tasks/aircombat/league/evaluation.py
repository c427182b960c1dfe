"""slipstream eval task=aircombat: games between agents, counted per pair, with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.help import ConfigError
from slipstream.recordings import SUFFIX, Recording, export_recording, write_html
from slipstream.tasks.aircombat.agents import BaseAgent, create_agent, is_checkpoint
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.matches import Games, Match, Recorder, Score, anchor_of, rate
from slipstream.tasks.aircombat.league.policies import SHIPPED, LearnedAgent
from slipstream.tasks.aircombat.recording import duel_recording
from slipstream.tasks.aircombat.spacetime import draw_game
from slipstream.tasks.evaluation import wilson
from slipstream.tasks.recording import describe_policy
from slipstream.ui.film import check_outputs
from slipstream.ui.tables import TextTable, format_rate, progress_bar

OPPONENTS = ("pursuit", "crank", "evade", "straight", "scripted")
RANGE_BANDS = 3  # of equal width


def evaluate(cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]) -> dict[str, Any]:
    """Play every red against every blue, print the tables; return the result."""
    if cfg.compare:
        raise ConfigError(f"compare={cfg.compare} is not supported; name several agents: red=A,B blue=pursuit,crank")
    if cfg.games < 2 or cfg.games % 2:
        raise ConfigError(f"games={cfg.games} must be even and at least 2: half of them are played with swapped sides")
    reds, blues = _names(cfg.red or str(trained.path)), _names(cfg.blue or ",".join(OPPONENTS))
    film_path = Path(cfg.out) if cfg.out else trained.beside("duel.html")
    if cfg.eval.picture:
        check_outputs(film_path, (".png", ".html", ".acmi", SUFFIX))
    agents = [{name: _open(name, cfg, device, log) for name in names} for names in (reds, blues)]  # before any game
    if cfg.env.sampled:
        torch.manual_seed(cfg.seed)
        agents[1] = {name: agent.train() for name, agent in agents[1].items()}
    loaded = [a.loaded for side in agents for a in side.values() if isinstance(a, LearnedAgent) and a.loaded]
    for line in dict.fromkeys(file.message() for file in loaded):
        log(line)
    matches = list(itertools.product(reds, blues))
    matches = [pair for k, pair in enumerate(matches) if pair[::-1] not in matches[:k]]  # a pair, not its mirror too
    world = replace(cfg.env, num_envs=cfg.games, sides=2, opponent="placeholder", reward="zero")
    pairs: list[dict[str, Any]] = []
    film: tuple[Recorder, Games] | None = None
    for red, blue in matches:
        with progress_bar(f"{short_name(red)} against {short_name(blue)}: {cfg.games:,} games") as progress:
            env = AirCombatEnv(cfg.games, device, cfg.seed, world)  # every pair has the same starts
            recorder = Recorder(env) if cfg.eval.picture and not film else None
            games = Match(env, agents[0][red], agents[1][blue]).play(progress, recorder)
        pairs.append({"red": red, "blue": blue, **tally(games), "parts": parts(games, cfg.env)})
        film = (recorder, games) if recorder else film
    result = {"games": cfg.games, "start": cfg.env.start, "time_scale": cfg.env.time_scale, "pairs": pairs}
    log(_pairs_table(pairs).render())
    results = {(p["red"], p["blue"]): Score(p["won"], p["draw"], p["lost"]) for p in pairs if p["red"] != p["blue"]}
    if results and len(pairs) > 1:
        result["ratings"] = _ratings(results)
        log(_ratings_table(result["ratings"], anchor_of(results)).render())
    if film:
        facts = describe_policy(next(iter(loaded), None), cfg.env) | {"pairs": [_shown_pair(p) for p in pairs]}
        names = short_name(reds[0]), short_name(blues[0])
        title = " against ".join(names)
        recording = _record(*film, names, title, facts)
        assert recording.draw_film
        with progress_bar("drawing a game"):
            result |= recording.draw_film(film_path)
        result["recording"] = str(recording.save(film_path.with_suffix(SUFFIX)))
        result["acmi"] = str(export_recording(recording, film_path.with_suffix(".acmi"), "acmi"))
        result["page"] = str(write_html(recording, film_path.with_suffix(".html")))
        written = [result[key] for key in ("page", "acmi", "picture", "animation") if key in result]
        log(f"{title}: {', '.join(written)}")
    return result


def record_game(cfg: Any, trained: LoadedPolicy) -> Recording:
    """Play two games against crank, with swapped sides, and return the one that says more."""
    env = AirCombatEnv(2, "cpu", cfg.seed, replace(cfg.env, num_envs=2, sides=2, opponent="placeholder", reward="zero"))
    recorder = Recorder(env, 2)
    games = Match(env, create_agent(str(trained.path), 2).eval(), create_agent("crank", 2)).play(None, recorder)
    return _record(recorder, games, ("policy", "crank"), "", describe_policy(trained, cfg.env), seen_by_red=True)


def tally(games: Games) -> dict[str, Any]:
    """Return the counts of a pair's distinct games, shares of all of them with 95 % intervals, and the share of decided
    games that were won; and how many games were played."""
    score = games.score()
    found: dict[str, Any] = {"games": score.games, "won": score.won, "draw": score.draw, "lost": score.lost}
    for what in ("won", "draw", "lost"):
        low, high = wilson(found[what], score.games)
        found |= {f"{what}_share": score.share(what), f"{what}_low": low, f"{what}_high": high}
    low, high = wilson(score.won, score.decided)
    found["decided_won_share"] = score.won / score.decided if score.decided else None
    found |= {"decided_won_low": low, "decided_won_high": high}
    return found | {"played": len(games.won), "seconds": float(games.elapsed_s.mean())}


def parts(games: Games, world: AirCombatConfig) -> dict[str, list[int]]:
    """Return red's games won, drawn and lost by its side, and by bands of the start range."""
    where = {"side 1": ~games.swapped, "side 2": games.swapped}
    if world.start == "random":
        edges = torch.linspace(*world.starts.range_m, RANGE_BANDS + 1).tolist()
        band = torch.bucketize(games.range_m, torch.tensor(edges[1:-1]))
        where |= {f"{a / 1000:.0f}–{b / 1000:.0f} km": band == k for k, (a, b) in enumerate(itertools.pairwise(edges))}
    scores = {name: games.score(mask) for name, mask in where.items()}
    return {name: [score.won, score.draw, score.lost] for name, score in scores.items()}


def short_name(name: str) -> str:
    """Return an agent's name for tables: for a path the run, and the file if one is named."""
    path = Path(name)
    if path == SHIPPED:
        return "learned"
    if not is_checkpoint(name):
        return name
    if path.suffix not in (".pt", ".slip", ".lz4"):
        return path.name
    run = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    return "/".join(part for part in (run.name, path.name.split(".")[0]) if part)


# -- internal --------------------------------------------------------------------------------------------------------


def _record(
    recorder: Recorder,
    games: Games,
    names: tuple[str, str],
    title: str,
    facts: dict[str, Any],
    seen_by_red: bool = False,
) -> Recording:
    """Return the recording of one game between red and blue of these names, as one of them sees it: its side is drawn
    blue, the other red."""
    index = recorder.choose(games)
    swapped = index % 2
    side = 1 + swapped if seen_by_red else 2 - swapped
    states = recorder.game(index)
    recording = duel_recording(states, names[::-1] if swapped else names, title, facts | {"shown_side": side})
    rules, seen = recorder.env.engine.rules, names if seen_by_red else names[::-1]
    recording.draw_film = lambda path: draw_game(states, side, path, title, seen, rules)
    return recording


def _shown_pair(pair: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a pair for the page."""
    names = {who: short_name(pair[who]) for who in ("red", "blue")}
    return names | {"all": [pair["won"], pair["draw"], pair["lost"]], "parts": pair["parts"]}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("name an agent: red=runs/NAME blue=pursuit,crank,evade")
    return list(dict.fromkeys(names))


def _open(name: str, cfg: Any, device: torch.device, log: Callable[[str], None]) -> BaseAgent:
    agent = create_agent(name, cfg.games, device).eval()
    if isinstance(agent, LearnedAgent) and agent.time_scale not in (None, cfg.env.time_scale):
        log(f"{name} was trained with env.time_scale={agent.time_scale:g}; here it decides with {cfg.env.time_scale:g}")
    return agent


def _ratings(results: dict[tuple[str, str], Score]) -> dict[str, dict[str, float | None]]:
    """Rate all players; without decided games a player has no rating (None)."""
    anchor = anchor_of(results)
    none = dict.fromkeys(("elo", "low", "high"))
    return {name: vars(r) | ({} if r.decided or name == anchor else none) for name, r in rate(results).items()}


def _ratings_table(ratings: dict[str, dict[str, Any]], anchor: str) -> TextTable:
    ranked = sorted(ratings.items(), key=lambda item: -math.inf if item[1]["elo"] is None else item[1]["elo"])
    rows = []
    for name, r in reversed(ranked):
        elo, interval = "–", "–"
        if r["elo"] is not None:
            elo, interval = f"{r['elo']:.0f}", "–" if name == anchor else f"{r['low']:.0f} … {r['high']:.0f}"
        games = f"{r['won']:,}", f"{r['draw']:,}", f"{r['lost']:,}", f"{r['won'] - r['lost']:+,}"
        rows.append([short_name(name), elo, interval, *games])
    title = f"Elo by decided games, {short_name(anchor)} being 1000; draws do not count"
    return TextTable(title, ("agent", "Elo", "95 % interval", "won", "draw", "lost", "won − lost"), rows, left=1)


def _pairs_table(pairs: list[dict[str, Any]]) -> TextTable:
    interval = "95 % interval"
    header = ("red", "blue", "games", "red won", interval, "draw", "red lost", interval, "won of decided", "mean s")
    rows = []
    for p in pairs:
        won, lost = (
            (format_rate(p[f"{what}_share"]), f"{format_rate(p[f'{what}_low'])} … {format_rate(p[f'{what}_high'])}")
            for what in ("won", "lost")
        )
        names = short_name(p["red"]), short_name(p["blue"]), f"{p['games']:,}"
        end = format_rate(p["decided_won_share"]), f"{p['seconds']:.0f}"
        rows.append([*names, *won, format_rate(p["draw_share"]), *lost, *end])
    played = f"{pairs[0]['played']:,} games per pair, half of them with swapped sides"
    title = f"{played}; the same game again does not count"
    return TextTable(title, header, rows, left=2)
