// Plots of a metric over time or frames.
import uPlot from "uplot";
import { el, number, theme } from "./ui.js";

// The ends of an axis: around one value there is room on both sides.
export function ends(low, high, least = 0) {
  const middle = (low + high) / 2,
    half = Math.max(high - low, least, high > low ? 0 : Math.abs(middle) * 0.2 || 1) / 2;
  return high - low >= 2 * half ? [low, high] : [middle - half, middle + half];
}

export function smallPlot(host, title, times, series, seek) {
  const c = theme.colors,
    colors = theme.series,
    box = el("div", { class: "plot" }, el("h3", { text: title }));
  host.append(box);
  const axis = {
    stroke: c.muted,
    grid: { stroke: c.grid, width: 1 },
    ticks: { show: false },
    font: "10px system-ui",
    size: 40,
    space: 18,
    values: (_, v) => v.map((x) => number(x)),
  };
  const plot = new uPlot(
    {
      width: Math.max(box.clientWidth, 120),
      height: 92,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: (_, low, high) => ends(low, high) },
        y: {
          range: (_, low, high) =>
            low === null
              ? [0, 1]
              : uPlot.rangeNum(...ends(low, high, 0.1 * Math.max(Math.abs(low), Math.abs(high))), 0.1, true),
        },
      },
      axes: [{ ...axis, size: 22, space: 50, values: (_, v) => v.map((x) => `${x} s`) }, axis],
      series: [
        {},
        ...series.map(([label], i) => ({
          label,
          stroke: colors[i % colors.length],
          width: 1.4,
          dash: i === 2 ? [4, 3] : undefined,
        })),
      ],
    },
    [times, ...series.map(([, values]) => values)],
    box,
  );
  if (series.length > 1)
    box.firstChild.append(
      ...series.map(([label], i) => el("span", { style: `color:${colors[i % colors.length]}`, text: ` ${label}` })),
    );
  plot.over.addEventListener("click", (e) => seek(plot.posToVal(e.offsetX, "x")));
  const mark = el("div", { class: "mark" });
  plot.over.append(mark);
  return (t) => {
    mark.style.left = `${plot.valToPos(Math.min(t, times[times.length - 1] ?? 0), "x")}px`;
  };
}
