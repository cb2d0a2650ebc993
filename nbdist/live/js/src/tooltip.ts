import uPlot from "uplot";

import { figure } from "./format";
import type { Entry } from "./series";

/** The values under the pointer, beside it. */
export class Tooltip {
  private _node = document.createElement("div");

  constructor(
    private _plot: uPlot,
    private _xLabel: string,
  ) {
    this._node.className = "nbd-tip";
    this._node.hidden = true;
    // What it says is in the chart for sighted readers and in the header for others.
    this._node.setAttribute("aria-hidden", "true");
    _plot.over.append(this._node);
  }

  show(entries: Entry[]): void {
    const { idx, left } = this._plot.cursor;
    if (idx === null || idx === undefined || left === undefined || left < 0) {
      this._node.hidden = true;
      return;
    }
    const head = document.createElement("div");
    head.className = "nbd-tip-head";
    head.textContent = `${this._xLabel} ${place(this._plot.data[0][idx])}`;
    const rows = entries.flatMap((entry) => {
      const text = figure(nearest(this._plot, entry.series[0], idx));
      return text ? [row(entry, text)] : [];
    });
    this._node.replaceChildren(head, ...rows);
    this._node.hidden = rows.length === 0;
    const room = this._plot.over.clientWidth;
    const toLeft = left > room / 2;
    this._node.style.left = toLeft ? "auto" : `${left + 12}px`;
    this._node.style.right = toLeft ? `${room - left + 12}px` : "auto";
  }
}

function place(x: number): string {
  return Number.isInteger(x) ? x.toLocaleString("en") : x.toFixed(1);
}

/** Metrics that are logged seldom keep their last value until the next one. */
function nearest(plot: uPlot, series: number, index: number): number | null {
  const column = plot.data[series];
  for (let i = index; i >= 0; i--) {
    const value = column[i];
    if (value !== undefined) return value;
  }
  return null;
}

function row(entry: Entry, text: string): HTMLElement {
  const made = document.createElement("div");
  made.className = "nbd-tip-row";
  const key = document.createElement("span");
  key.className = entry.dash ? "nbd-key nbd-dashed" : "nbd-key";
  key.style.borderTopColor = entry.colour;
  const label = document.createElement("span");
  label.textContent = entry.label;
  const value = document.createElement("span");
  value.className = "nbd-value";
  value.textContent = text;
  made.append(key, label, value);
  return made;
}
