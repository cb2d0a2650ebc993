import uPlot from "uplot";

import { colour, dash, interleave } from "./palette";
import type { Table } from "./run";

/** One entry of a chart's legend and the uPlot series that belong to it. */
export interface Entry {
  label: string;
  colour: string;
  dash?: number[];
  side: "left" | "right";
  /** Series numbers; the first is the line whose value is shown. */
  series: number[];
}

export interface Plan {
  series: uPlot.Series[];
  bands: uPlot.Band[];
  entries: Entry[];
  right: boolean;
  /** What the companions of the lines are, if there are any. */
  note: string;
}

/** Decide what is drawn for these tables, and how. */
export function plan(tables: Table[], dark: boolean): Plan {
  const made: Plan = { series: [{}], bands: [], entries: [], right: false, note: "" };
  const onRight = rightSide(tables.filter((t) => t.kind === "metric").map((t) => t.name));
  tables.forEach((table, i) => {
    if (table.kind === "rate") planRates(made, table, dark);
    else planMetric(made, table, i, onRight.has(table.name), dark);
  });
  made.right = onRight.size > 0;
  return made;
}

/** Losses go left and everything else right (axes.py draws the picture by the same rule). */
function rightSide(names: string[]): Set<string> {
  const losses = names.filter((name) => name.toLowerCase().includes("loss"));
  return new Set(losses.length ? names.filter((name) => !losses.includes(name)) : []);
}

function planMetric(made: Plan, table: Table, index: number, right: boolean, dark: boolean): void {
  const scale = right ? "right" : "left";
  const paint = colour(index, dark);
  const entry: Entry = { label: table.name, colour: paint, dash: dash(index), side: scale, series: [] };
  const first = made.series.length;
  const at = (name: string) => first + table.columns.indexOf(name);
  for (const name of table.columns) {
    if (name === "mean") made.series.push(line(scale, paint, 2, entry.dash));
    else if (name === "low" || name === "high") made.series.push(line(scale, "transparent", 0));
    else made.series.push(line(scale, paint + "66", 1));
    entry.series.push(made.series.length - 1);
  }
  made.bands.push({ series: [at("high"), at("low")], fill: paint + (dark ? "38" : "2A") });
  if (table.columns.length > 3) made.note = "band: range of the ranks · thin: each rank";
  made.entries.push(entry);
}

function planRates(made: Plan, table: Table, dark: boolean): void {
  const first = made.series.length;
  const alone = table.columns.length === 1;
  const low = table.columns.indexOf("low");
  table.columns.forEach((name, i) => {
    if (name === "low" || name === "high") {
      made.series.push(line("left", "transparent", 0));
      return;
    }
    const paint = colour(i, dark);
    const dashes = i === 0 ? undefined : interleave(i - 1, table.columns.length - 1);
    made.series.push(line("left", paint, i === 0 ? 2 : 1.25, dashes));
    const label = alone ? "examples/s" : name;
    made.entries.push({ label, colour: paint, dash: dash(i), side: "left", series: [first + i] });
  });
  if (low > 0) {
    const paint = colour(1, dark);
    made.bands.push({ series: [first + low + 1, first + low], fill: paint + "40" });
    made.entries.push({ label: "range of ranks", colour: paint, side: "left", series: [first + low + 1, first + low] });
  }
}

function line(scale: string, stroke: string, width: number, dashes?: number[]): uPlot.Series {
  return {
    scale,
    stroke,
    width,
    dash: dashes,
    spanGaps: false,
    // A lone value is no line, so it gets a dot.
    points: { show: (u, i) => width >= 2 && lone(u.data[i] as (number | null)[]), size: 6, fill: stroke },
  };
}

function lone(values: (number | null | undefined)[]): boolean {
  let seen = 0;
  for (const value of values) {
    if (value !== null && value !== undefined && ++seen > 1) return false;
  }
  return seen === 1;
}
