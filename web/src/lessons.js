// The tutorial's three missions, and what a game teaches afterwards.
import { kept } from "./ui.js";

export const LESSONS = {
  launch: {
    name: "Launch",
    enemy: "target",
    goal: "A target flies past and does not shoot. Point your nose at it, get inside R_ne (the solid blue line), fire.",
    won: "You fired where it could not outrun the missile. Outside R_ne it would have had time to turn away.",
    failed: "Fly at the target until the line below says that it cannot escape, then fire.",
  },
  defend: {
    name: "Defend",
    goal: "A missile will come and you cannot shoot. Turn your tail to it at once and run at full throttle: it burns out.",
    won: "You outran it: a missile burns for 10 s, then it only gets slower.",
    failed: "Do not wait: turn until the missile is behind you, then fly straight at full throttle.",
  },
  win: {
    name: "Win",
    goal: "pursuit has two missiles, you have six. Outrun its missiles, then turn back, get inside R_ne and fire.",
    won: "That is the whole game: defend first, then attack from inside R_ne.",
    failed:
      "First defend: fire one missile to make it busy, turn your tail to its missiles, come back when they are gone.",
  },
};
export const passed = () => kept("lessons", []);
export function pass(name) {
  if (!passed().includes(name)) kept.set("lessons", [...passed(), name]);
}

// What to do now in a lesson, with the mood of the line; nothing where the line of every game says it.
export function tip(lesson, state, diagram, touch) {
  const [me, enemy] = state.fighters,
    off = (x, y) => Math.abs(Math.atan2(me.vx * y - me.vy * x, me.vx * x + me.vy * y));
  if (lesson === "launch") {
    const [range, , , rNe] = diagram.range,
      flying = state.missiles.length;
    if (flying) return ["Missile away: watch it", "good"];
    if (off(enemy.x - me.x, enemy.y - me.y) > 0.25)
      return [`Point your nose at the target: ${touch ? "use the stick" : "A or D"}`, "warn"];
    if (range > rNe) return ["Not yet: it could outrun a missile. Close in", ""];
    return [`Inside R_ne: fire (${touch ? "the button" : "space"})`, "good"];
  }
  if (lesson === "defend") {
    const threat = state.missiles[0] ?? enemy;
    if (off(me.x - threat.x, me.y - threat.y) > 0.5)
      return [`Turn your tail to it: hold ${touch ? "the stick to one side" : "A or D"}`, "danger"];
    return ["Good: straight on at full throttle", "good"];
  }
  return null;
}

const at = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;
const km = (x) => `${(x / 1000).toFixed(1)} km`;
const first = (text) => text[0].toUpperCase() + text.slice(1);
export const moment = at;

// The debrief in words; `names` of both sides, "you" for the person who reads.
export function explain(d, names) {
  if (!d.victim)
    return d.range <= d.r_ne
      ? `Nobody was hit. Your best shot was at ${at(d.time)}: ${km(d.range)}, inside R_ne. A missile fired then could not have been outrun.`
      : `Nobody was hit. Your best shot was at ${at(d.time)}: ${km(d.range)}, with R_ne at ${km(d.r_ne)}. Get inside R_ne, nose on, before you fire.`;
  const [who, other] = d.victim === 1 ? names : [names[1], names[0]],
    zone = other === "you" ? "your" : `${other}'s`;
  const shot =
    d.entered === null
      ? `${first(other)} fired at ${at(d.launch)} from ${km(d.range)}, outside the no-escape zone (R_ne ${km(d.r_ne)}).`
      : `${first(who)} entered ${zone} no-escape zone at ${at(d.entered)}; ${other} fired at ${at(d.launch)} from ${km(d.range)}.`;
  if (d.time === null) return `${shot} No turn away in the 20 s before that would have been enough.`;
  return `${shot} Turning away at ${at(d.time)} would have ${who === "you" ? "been enough" : `saved ${who}`}.`;
}
