import uPlot from "uplot";

import { tickLabels } from "./format";
import type { Plan } from "./series";
import type { Theme } from "./theme";

/** Distances between ticks where only whole numbers are values. */
const WHOLE = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((m) => m * 10 ** power)).flat();

const FEW = 50;
const FAR = 5;

/** Lay out the axes of a plan: the step or time below, a scale to the left and maybe one to the right. */
export function axes(plan: Plan, xLabel: string, theme: Theme): uPlot.Axis[] {
  const look: uPlot.Axis = {
    stroke: theme.faint,
    font: theme.font,
    grid: { stroke: theme.grid, width: 1 },
    ticks: { stroke: theme.grid, width: 1, size: 4 },
    values: (_u, ticks) => tickLabels(ticks),
  };
  const up: uPlot.Axis = { ...look, gap: 6, space: 30, size: widthOf, ticks: { show: false } };
  const below: uPlot.Axis = {
    ...look,
    incrs: xLabel === "step" ? WHOLE : undefined,
    label: xLabel,
    labelFont: theme.font,
    labelSize: 18,
    labelGap: 2,
    size: 24,
    gap: 4,
    space: 60,
    grid: { show: false },
    border: { show: true, stroke: theme.grid, width: 1 },
  };
  const left: uPlot.Axis = { ...up, scale: "left", stroke: inkOf(plan, "left", theme) };
  if (!plan.right) return [below, left];
  return [below, left, { ...up, scale: "right", side: 1, grid: { show: false }, stroke: inkOf(plan, "right", theme) }];
}

/** Leave a margin round the data, so that no line touches the frame. */
export function room(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low === null || high === null || !Number.isFinite(low + high)) return [0, 1];
  if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
  const margin = high > low ? 0.06 * (high - low) : Math.abs(low) * 0.5 || 1;
  return [low - margin, high + margin];
}

/** What the scale has to hold: all that is in view, but for a few values far off (axes.py: reach). */
export function reach(plot: uPlot, scale: string, low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const [from, to] = plot.series[0].idxs ?? [0, plot.data[0].length - 1];
  const seen: number[] = [];
  plot.series.forEach((series, i) => {
    if (i === 0 || series.scale !== scale || series.show === false) return;
    for (let row = from; row <= to; row++) {
      const value = plot.data[i][row];
      if (value !== null && value !== undefined) seen.push(value);
    }
  });
  if (seen.length < FEW) return [low, high];
  const sorted = Float64Array.from(seen).sort();
  const usualLow = sorted[Math.floor(0.01 * (sorted.length - 1))];
  const usualHigh = sorted[Math.ceil(0.99 * (sorted.length - 1))];
  const spread = usualHigh - usualLow;
  const far = FAR * spread;
  if (far === 0) return [low, high];
  return [
    low < usualLow - far ? usualLow - spread / 2 : low,
    high > usualHigh + far ? usualHigh + spread / 2 : high,
  ];
}

/** An axis that belongs to one line alone wears its colour. */
function inkOf(plan: Plan, side: "left" | "right", theme: Theme): string {
  const mine = plan.entries.filter((entry) => entry.side === side);
  return plan.right && mine.length === 1 ? mine[0].colour : theme.faint;
}

function widthOf(_u: uPlot, labels: string[] | null): number {
  const longest = Math.max(2, ...(labels ?? []).map((label) => label.length));
  return Math.ceil(6.6 * longest) + 10;
}
