import uPlot from "uplot";

import { figure, tickLabels } from "./format";
import type { Table } from "./run";
import { plan, type Entry, type Plan } from "./series";
import type { Theme } from "./theme";

const HEIGHT = 230;

export interface ChartOptions {
  title: string;
  xLabel: string;
  fromZero: boolean;
}

/** A pair of axes with its legend. */
export class Chart {
  readonly node = document.createElement("section");
  private _legend = document.createElement("div");
  private _place = document.createElement("div");
  private _plot: uPlot | null = null;
  private _plan: Plan | null = null;
  private _shape = "";
  private _hidden = new Set<string>();
  private _values = new Map<Entry, HTMLElement>();
  private _zoomed = false;
  private _resizer: ResizeObserver;

  constructor(private _options: ChartOptions) {
    this.node.className = "nbd-chart";
    this._legend.className = "nbd-legend";
    this._place.className = "nbd-plot";
    this._place.setAttribute("role", "img");
    this.node.append(this._legend, this._place);
    this._resizer = new ResizeObserver(() => this._fit());
    this._resizer.observe(this._place);
  }

  /** Draw the tables as they are now. */
  draw(tables: Table[], theme: Theme): void {
    const shape = JSON.stringify([tables.map((t) => [t.name, t.columns]), theme]);
    const data = join(tables);
    if (shape !== this._shape || !this._plot) {
      this._shape = shape;
      this._build(tables, data, theme);
    } else {
      // While the reader looks at a stretch, new rows must not pull the view away.
      this._plot.setData(data, !this._zoomed);
      if (this._zoomed) this._plot.redraw();
    }
    const names = tables.map((t) => t.name).join(", ");
    this._place.setAttribute("aria-label", `${names} by ${this._options.xLabel}, ${data[0].length} points`);
  }

  dispose(): void {
    this._resizer.disconnect();
    this._plot?.destroy();
  }

  private _build(tables: Table[], data: uPlot.AlignedData, theme: Theme): void {
    this._plot?.destroy();
    this._plan = plan(tables, theme.dark);
    this._zoomed = false;
    const options: uPlot.Options = {
      width: Math.max(200, this._place.clientWidth),
      height: HEIGHT,
      padding: [8, this._plan.right ? 0 : 14, 0, 0],
      legend: { show: false },
      series: this._plan.series,
      bands: this._plan.bands,
      axes: axes(this._plan.right, this._options.xLabel, theme),
      scales: {
        x: { time: false, range: (_u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        left: { range: (_u, low, high) => room(low, high, this._options.fromZero) },
        right: { range: (_u, low, high) => room(low, high, false) },
      },
      cursor: {
        y: false,
        points: { size: 6 },
        drag: { x: true, y: false, setScale: true },
        bind: {
          dblclick: (_u, _t, handler) => (event) => {
            this._zoomed = false;
            return handler(event);
          },
        },
      },
      hooks: {
        setCursor: [(u) => this._showValues(u.cursor.idx ?? null)],
        setSelect: [(u) => (this._zoomed = u.select.width > 0)],
      },
    };
    this._plot = new uPlot(options, data, this._place);
    this._buildLegend(this._plan.entries);
  }

  private _buildLegend(entries: Entry[]): void {
    this._values.clear();
    const title = document.createElement("span");
    title.className = "nbd-chart-title";
    title.textContent = this._options.title;
    const sided = this._plan?.right;
    const buttons = entries.map((entry) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "nbd-entry";
      button.title = "Show or hide";
      const key = document.createElement("span");
      key.className = entry.dash ? "nbd-key nbd-dashed" : "nbd-key";
      key.style.borderTopColor = entry.colour;
      const label = document.createElement("span");
      label.textContent = entry.label + (sided ? (entry.side === "right" ? " →" : " ←") : "");
      const value = document.createElement("span");
      value.className = "nbd-value";
      button.append(key, label, value);
      this._values.set(entry, value);
      const apply = () => {
        const shown = !this._hidden.has(entry.label);
        button.setAttribute("aria-pressed", String(shown));
        for (const i of entry.series) this._plot?.setSeries(i, { show: shown });
      };
      button.onclick = () => {
        if (!this._hidden.delete(entry.label)) this._hidden.add(entry.label);
        apply();
      };
      if (this._hidden.has(entry.label)) apply();
      else button.setAttribute("aria-pressed", "true");
      return button;
    });
    this._legend.replaceChildren(title, ...buttons);
  }

  private _showValues(index: number | null): void {
    for (const [entry, node] of this._values) {
      const column = this._plot?.data[entry.series[0]];
      node.textContent = index === null || !column ? "" : figure(column[index] as number | null);
    }
  }

  private _fit(): void {
    const width = this._place.clientWidth;
    if (this._plot && width > 0 && width !== this._plot.width) this._plot.setSize({ width, height: HEIGHT });
  }
}

function join(tables: Table[]): uPlot.AlignedData {
  const parts = tables.map((t) => [t.x, ...t.values] as unknown as uPlot.AlignedData);
  return parts.length === 1 ? parts[0] : uPlot.join(parts);
}

function room(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low === null || high === null || !Number.isFinite(low + high)) return [0, 1];
  if (fromZero) return [Math.min(0, low), high > 0 ? high * 1.08 : 1];
  const margin = high > low ? 0.06 * (high - low) : Math.abs(low) * 0.5 || 1;
  return [low - margin, high + margin];
}

function axes(right: boolean, xLabel: string, theme: Theme): uPlot.Axis[] {
  const look: uPlot.Axis = {
    stroke: theme.faint,
    font: theme.font,
    grid: { stroke: theme.grid, width: 1 },
    ticks: { stroke: theme.grid, width: 1, size: 4 },
    values: (_u, ticks) => tickLabels(ticks),
  };
  const up: uPlot.Axis = { ...look, scale: "left", size: 50, gap: 4, space: 40, ticks: { show: false } };
  return [
    { ...look, label: xLabel, labelFont: theme.font, labelSize: 16, size: 26, gap: 3, space: 60, grid: { show: false } },
    up,
    ...(right ? [{ ...up, scale: "right", side: 1 as const, grid: { show: false } }] : []),
  ];
}
