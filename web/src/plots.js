// Plots of a metric over time or frames.
import uPlot from "uplot";
import { el, number, theme } from "./ui.js";

export function smallPlot(host, title, times, series, seek) {
  const c = theme.colors, colors = theme.series, box = el("div", { class: "plot" }, el("h3", { text: title }));
  host.append(box);
  const axis = { stroke: c.muted, grid: { stroke: c.grid, width: 1 }, ticks: { show: false }, font: "10px system-ui", size: 34, values: (_, v) => v.map((x) => number(x)) };
  const plot = new uPlot({
    width: Math.max(box.clientWidth, 120), height: 92, legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { time: false } }, axes: [{ ...axis, size: 22, values: (_, v) => v.map((x) => `${x} s`) }, axis],
    series: [{}, ...series.map(([label], i) => ({ label, stroke: colors[i % colors.length], width: 1.4, dash: i === 2 ? [4, 3] : undefined }))],
  }, [times, ...series.map(([, values]) => values)], box);
  if (series.length > 1) box.firstChild.append(...series.map(([label], i) => el("span", { style: `color:${colors[i % colors.length]}`, text: ` ${label}` })));
  plot.over.addEventListener("click", (e) => seek(plot.posToVal(e.offsetX, "x")));
  const mark = el("div", { class: "mark" });
  plot.over.append(mark);
  return (t) => { mark.style.left = `${plot.valToPos(Math.min(t, times[times.length - 1] ?? 0), "x")}px`; };
}
