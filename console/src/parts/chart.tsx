// A chart over time: uPlot in the colours of the page. A table of the last values stands behind it for readers of screens.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useCell } from "../state/cell";
import { isDark } from "../state/preferences";

export interface Line {
  name: string;
  values: (number | null)[];
}

const COLOURS = {
  light: ["#0f6b6f", "#b4552d", "#5b5aa8", "#8a7a1f", "#2f7d4f", "#a03a6b", "#4a6a8a", "#7a5a3a"],
  dark: ["#5cc3c4", "#ee9a70", "#a9a7f2", "#d8c661", "#7fcf9b", "#ec8fbb", "#90b5dc", "#cda98a"],
};

export function Chart(props: { label: string; times: number[]; lines: Line[]; format: (value: number) => string; height?: number; least?: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = useCell(isDark);
  const least = props.least ?? 1;
  const names = props.lines.map((line) => line.name).join("\n");
  const format = useRef(props.format);
  format.current = props.format;

  useEffect(() => {
    const here = box.current;
    if (!here) return;
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink-2").trim();
    const rule = style.getPropertyValue("--rule").trim();
    const colours = dark ? COLOURS.dark : COLOURS.light;
    const axis = { stroke: ink, font: "11px 'IBM Plex Sans Variable', sans-serif", grid: { stroke: rule, width: 1 }, ticks: { show: false } };
    plot.current = new uPlot(
      {
        width: here.clientWidth || 300,
        height: props.height ?? 170,
        padding: [10, 28, 0, 0], // half of the last time
        legend: { show: props.lines.length > 0, live: true },
        cursor: { y: false, points: { size: 6 } },
        scales: { x: { time: true }, y: { range: (_chart, _low, high) => [0, Math.max((high ?? 0) * 1.15, least)] } },
        axes: [
          { ...axis, grid: { show: false }, size: 26, values: (_chart, ticks) => ticks.map((at) => new Date(at * 1000).toTimeString().slice(0, 8)), space: 90 },
          { ...axis, size: 62, values: (_chart, ticks) => ticks.map((value) => format.current(value)), space: 34 },
        ],
        hooks: { setCursor: [showLast], setData: [showLast] },
        series: [
          { value: (_chart, at) => (at ? new Date(at * 1000).toTimeString().slice(0, 8) : "") , label: "time" },
          ...props.lines.map((line, index) => ({
            label: line.name,
            stroke: colours[index % colours.length] ?? "#000",
            width: 1.6,
            points: { show: false },
            spanGaps: false,
            value: (_chart: uPlot, value: number | null) => (value === null || value === undefined ? "–" : format.current(value)),
          })),
        ],
      },
      [props.times, ...props.lines.map((line) => line.values)] as uPlot.AlignedData,
      here,
    );
    const watcher = new ResizeObserver(() => {
      if (here.clientWidth) plot.current?.setSize({ width: here.clientWidth, height: props.height ?? 170 });
    });
    watcher.observe(here);
    return () => {
      watcher.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [dark, names, props.height, least]);

  useEffect(() => {
    plot.current?.setData([props.times, ...props.lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [props.times, props.lines]);

  const last = props.lines.map((line) => `${line.name}: ${say(line.values, props.format)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{props.label}</figcaption>
      <div ref={box} role="img" aria-label={`${props.label}. Now: ${last || "no figures yet"}`} />
    </figure>
  );
}

/** Where the pointer is elsewhere, the legend says the newest values. */
function showLast(chart: uPlot): void {
  if (chart.cursor.idx === null || chart.cursor.idx === undefined || (chart.cursor.left ?? -1) < 0) {
    const last = (chart.data[0]?.length ?? 0) - 1;
    if (last >= 0) chart.setLegend({ idx: last }, false);
  }
}

function say(values: (number | null)[], format: (value: number) => string): string {
  const last = values.at(-1);
  return last === null || last === undefined ? "none" : format(last);
}
