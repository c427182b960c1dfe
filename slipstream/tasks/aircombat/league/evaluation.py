"""slipstream eval task=aircombat: games between agents, counted per pair, side and start range, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.help import ConfigError
from slipstream.recordings import SUFFIX, Recording, export_recording, write_html
from slipstream.storage.errors import printable
from slipstream.tasks.aircombat.agents import AGENTS, BaseAgent, create_agent, is_checkpoint
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.figures.animation import draw_game
from slipstream.tasks.aircombat.league.matches import Games, Match, Recorder, Score, anchor_of, rate
from slipstream.tasks.aircombat.league.policies import SHIPPED, LearnedAgent
from slipstream.tasks.aircombat.recording import duel_recording
from slipstream.tasks.evaluation import wilson
from slipstream.tasks.recording import describe_policy
from slipstream.ui.film import check_outputs
from slipstream.ui.tables import TextTable, format_rate, progress_bar

OPPONENTS = ("pursuit", "crank", "evade")
RANGE_BANDS = 3  # results are split into bands of equal width by start range


def evaluate(cfg: Any, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]) -> dict[str, Any]:
    """Play every red against every blue, print the tables; return the result."""
    if cfg.compare:
        raise ConfigError(
            f"compare={cfg.compare} is not supported; name several agents: "
            f"red={cfg.red or 'A'},{cfg.compare} blue={cfg.blue or ','.join(OPPONENTS)}"
        )
    if cfg.games < 2 or cfg.games % 2:
        raise ConfigError(
            f"games={cfg.games} must be even and at least 2: half of the games are played with swapped sides"
        )
    reds = _names(cfg.red or str(trained.path))
    blues = _names(cfg.blue) if cfg.blue is not None else [*OPPONENTS, *_trained_against(cfg, trained, log)]
    film_path = Path(cfg.out) if cfg.out else trained.beside("duel.html")
    if cfg.eval.picture:
        check_outputs(film_path, (".png", ".html", ".acmi", SUFFIX))
    world = replace(cfg.env, num_envs=cfg.games, sides=2, opponent="placeholder", reward="zero")
    agents = [{name: _open(name, cfg, device, log) for name in names} for names in (reds, blues)]  # before any game
    for line in dict.fromkeys(file.message() for side in agents for file in _policy_files(side.values())):
        log(line)
    pairs: list[dict[str, Any]] = []
    film = None
    for red in reds:
        for blue in blues:
            with progress_bar(f"{short_name(red)} against {short_name(blue)}: {cfg.games:,} games") as progress:
                env = AirCombatEnv(cfg.games, device, cfg.seed, world)  # every pair has the same starts
                recorder = Recorder(env) if cfg.eval.picture and not pairs else None
                games = Match(env, agents[0][red], agents[1][blue]).play(progress, recorder)
            pairs.append({"red": red, "blue": blue, **tally(games, cfg)})
            if recorder:
                film = recorder, recorder.choose(games), short_name(red), short_name(blue)
    setup = {"games": cfg.games, "start": cfg.env.start, "time_scale": cfg.env.time_scale}
    result: dict[str, Any] = {**setup, "pairs": pairs}
    log(_pairs_table(pairs).render())
    log(_parts_table(pairs).render())
    for text in _repeated(pairs):
        log(text)
    if len(reds) * len(blues) > 1:
        results = _results(pairs)
        anchor = anchor_of(results)
        result["ratings"] = _ratings(results, anchor)
        if results:
            log(_ratings_table(result["ratings"], anchor).render())
    if film:
        recorder, index, red, blue = film
        title, seen_from = f"{red} against {blue}", 2 - index % 2  # blue's side: its own is drawn blue, red red
        with progress_bar("drawing a game") as progress:
            result |= draw_game(recorder.states(index), seen_from, film_path, title, (blue, red), progress)
        sides = (red, blue) if index % 2 == 0 else (blue, red)
        shown = next(iter(_policy_files([agents[0][reds[0]], agents[1][blues[0]]])), None)
        facts = describe_policy(shown, cfg.env) | {"pairs": [_shown_pair(p) for p in pairs], "shown_side": seen_from}
        recording = duel_recording(recorder.game(index), sides, title, facts)
        result["recording"] = str(recording.save(film_path.with_suffix(SUFFIX)))
        result["acmi"] = str(export_recording(recording, film_path.with_suffix(".acmi"), "acmi"))
        result["page"] = str(write_html(recording, film_path.with_suffix(".html")))
        written = [result[key] for key in ("page", "acmi", "picture", "animation") if key in result]
        log(f"{title}: {', '.join(written)}")
    return result


def record_game(cfg: Any, trained: LoadedPolicy) -> Recording:
    """Play two games against crank, with swapped sides, and return the one that says more."""
    world = replace(cfg.env, num_envs=2, sides=2, opponent="placeholder", reward="zero")
    env = AirCombatEnv(2, "cpu", cfg.seed, world)
    recorder = Recorder(env, 2)
    games = Match(env, create_agent(str(trained.path), 2).eval(), create_agent("crank", 2)).play(None, recorder)
    index = recorder.choose(games)
    sides = ("policy", "crank") if index == 0 else ("crank", "policy")
    facts = describe_policy(trained, cfg.env) | {"shown_side": 1 + index}
    recording = duel_recording(recorder.game(index), sides, "", facts)
    recording.draw_film = lambda path: draw_game(
        recorder.states(index), 1 + index, path, "policy against crank", ("policy", "crank"), lambda share: None
    )
    return recording


def tally(games: Games, cfg: Any) -> dict[str, Any]:
    """Return counts and shares of a pair's distinct games: all, by red's side, and by start range; and how many were
    played."""
    parts = {"side 1": ~games.swapped, "side 2": games.swapped}
    if cfg.env.start == "random":
        low, high = cfg.env.starts.range_m
        edges = torch.linspace(low, high, RANGE_BANDS + 1).tolist()
        band = torch.bucketize(games.range_m, torch.tensor(edges[1:-1]))
        names = [f"{a / 1000:.0f}–{b / 1000:.0f} km" for a, b in zip(edges, edges[1:], strict=False)]
        parts |= {name: band == k for k, name in enumerate(names)}
    split = {name: facts(games.score(where)) for name, where in parts.items()}
    return facts(games.score()) | {"played": len(games.won), "seconds": float(games.elapsed_s.mean()), "parts": split}


def facts(score: Score) -> dict[str, Any]:
    """Return counts, shares of all games with intervals, and the share of decided games that were won."""
    found: dict[str, Any] = {"games": score.games, "won": score.won, "draw": score.draw, "lost": score.lost}
    for what in ("won", "draw", "lost"):
        low, high = wilson(getattr(score, what), score.games)
        found |= {f"{what}_share": score.share(what), f"{what}_low": low, f"{what}_high": high}
    low, high = wilson(score.won, score.decided)
    decided = {"decided_won_share": score.won / score.decided if score.decided else None}
    return found | decided | {"decided_won_low": low, "decided_won_high": high}


def short_name(name: str) -> str:
    """Return an agent's name for tables: for a path the run, and the file if it is not the run's best checkpoint."""
    path = Path(name)
    if name in AGENTS or ":" in name or not path.name:
        return name
    if path.suffix not in (".pt", ".slip", ".lz4"):
        return path.name
    if path == SHIPPED:
        return "learned"
    run = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    stem = path.name.split(".")[0]
    return run.name if stem == "best" and run.name else "/".join(part for part in (run.name, stem) if part)


# -- internal --------------------------------------------------------------------------------------------------------


def _shown_pair(pair: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a pair for the page: by opponent, side and start range."""
    parts = {name: [q["won"], q["draw"], q["lost"]] for name, q in pair["parts"].items()}
    names = {who: short_name(pair[who]) for who in ("red", "blue")}
    return names | {"all": [pair["won"], pair["draw"], pair["lost"]], "parts": parts}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigError("name an agent: red=runs/NAME blue=pursuit,crank,evade")
    return names


def _trained_against(cfg: Any, trained: LoadedPolicy, log: Callable[[str], None]) -> list[str]:
    """Return the opponent of the red policy's training, if there is one that is not in OPPONENTS.

    The name is from a file: a scripted agent or a checkpoint is played, code of the user's only if the user types it.
    """
    config = trained.state["config"] if trained.task == "aircombat" else None
    if config is None or (cfg.red and not is_checkpoint(_names(cfg.red)[0])):
        return []
    name, league = str(config["env"].get("opponent", "")), config.get("league")
    if name in OPPONENTS or config["env"].get("sides") != 1 or (isinstance(league, dict) and league.get("enabled")):
        return []
    if name in AGENTS or (is_checkpoint(name) and Path(name).exists()):
        return [name]
    log(
        f"the training's opponent, {printable(name)}, does not play: to include it type blue={','.join(OPPONENTS)},NAME"
    )
    return []


def _open(name: str, cfg: Any, device: torch.device, log: Callable[[str], None]) -> BaseAgent:
    agent = create_agent(name, cfg.games, device).eval()
    if isinstance(agent, LearnedAgent) and agent.time_scale not in (None, cfg.env.time_scale):
        log(f"{name} was trained with env.time_scale={agent.time_scale:g}; here it decides with {cfg.env.time_scale:g}")
    return agent


def _policy_files(agents: Iterable[BaseAgent]) -> list[LoadedPolicy]:
    return [agent.loaded for agent in agents if isinstance(agent, LearnedAgent) and agent.loaded]


def _results(pairs: list[dict[str, Any]]) -> dict[tuple[str, str], Score]:
    """Return the games that count for ratings: not against oneself, and a pair and its mirror once if they repeat."""
    results: dict[tuple[str, str], Score] = {}
    for p in pairs:
        mirrored = p["games"] < p["played"] and (p["blue"], p["red"]) in results  # the same games once more
        if p["red"] != p["blue"] and not mirrored:
            results[p["red"], p["blue"]] = Score(p["won"], p["draw"], p["lost"])
    return results


def _ratings(results: dict[tuple[str, str], Score], anchor: str) -> dict[str, dict[str, float | None]]:
    """Rate all players; without decided games a player has no rating (None)."""
    none = dict.fromkeys(("elo", "low", "high"))
    ratings = rate(results, anchor) if results else {}
    return {name: vars(r) | ({} if r.decided or name == anchor else none) for name, r in ratings.items()}


def _repeated(pairs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for the pairs of which some games were the same."""
    for played, distinct in dict.fromkeys((p["played"], p["games"]) for p in pairs if p["games"] < p["played"]):
        who = [f"{short_name(p['red'])} against {short_name(p['blue'])}" for p in pairs if p["games"] == distinct]
        names = "every pair" if len(who) == len(pairs) else ", ".join(who)
        games = "game" if distinct == 1 else "games"
        yield (
            f"{names}: {distinct:,} distinct {games} of {played:,}. Equal starts and agents without noise repeat a game; "
            "repeats are counted once"
        )


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
    header = ("red", "blue", "red won", interval, "draw", "red lost", interval, "won of decided", "mean s")
    rows = []
    for p in pairs:
        won, lost = (
            (format_rate(p[f"{what}_share"]), f"{format_rate(p[f'{what}_low'])} … {format_rate(p[f'{what}_high'])}")
            for what in ("won", "lost")
        )
        end = format_rate(p["decided_won_share"]), f"{p['seconds']:.0f}"
        rows.append([short_name(p["red"]), short_name(p["blue"]), *won, format_rate(p["draw_share"]), *lost, *end])
    title = f"{pairs[0]['played']:,} games per pair, half of them with swapped sides"
    return TextTable(title, header, rows, left=2)


def _parts_table(pairs: list[dict[str, Any]]) -> TextTable:
    rows = []
    for p in pairs:
        shares = [
            "/".join(format_rate(part[f"{what}_share"], 2) for what in ("won", "draw", "lost"))
            if part["games"]
            else "–"
            for part in p["parts"].values()
        ]
        rows.append([short_name(p["red"]), short_name(p["blue"]), *shares])
    header = ("red", "blue", *pairs[0]["parts"])
    return TextTable("red's games won/drawn/lost by its side and by start range", header, rows, left=2)
