import uPlot from "uplot";

import { axes, reach, room } from "./axes";
import { Legend } from "./legend";
import type { Table } from "./run";
import { plan } from "./series";
import type { Theme } from "./theme";
import { Tooltip } from "./tooltip";

const HEIGHT = 230;

export interface ChartOptions {
  title: string;
  xLabel: string;
  fromZero: boolean;
}

/** A pair of axes with its legend. */
export class Chart {
  readonly node = document.createElement("section");
  private _legend: Legend;
  private _place = document.createElement("div");
  private _plot: uPlot | null = null;
  private _shape = "";
  private _zoomed = false;
  private _resizer: ResizeObserver;

  constructor(private _options: ChartOptions) {
    this._legend = new Legend(_options.title, () => this._resetZoom());
    this.node.className = "nbd-chart";
    this._place.className = "nbd-plot";
    this._place.setAttribute("role", "img");
    this.node.append(this._legend.node, this._place);
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
    this._noteZoom(false);
    const made = plan(tables, theme.dark);
    let tip: Tooltip | null = null;
    const options: uPlot.Options = {
      width: Math.max(200, this._place.clientWidth),
      height: HEIGHT,
      padding: [8, made.right ? 0 : 16, 0, 0],
      legend: { show: false },
      series: made.series,
      bands: made.bands,
      axes: axes(made, this._options.xLabel, theme),
      scales: {
        x: { time: false, range: (_u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        left: { range: (u, low, high) => this._range(u, "left", low, high) },
        right: { range: (u, low, high) => this._range(u, "right", low, high) },
      },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: true },
        bind: {
          dblclick: (_u, _target, handler) => (event) => {
            this._noteZoom(false);
            return handler(event);
          },
        },
      },
      hooks: {
        setCursor: [() => tip?.show(made.entries.filter((entry) => this._legend.isShown(entry)))],
        setSelect: [(u) => this._noteZoom(u.select.width > 0)],
      },
    };
    const plot = new uPlot(options, data, this._place);
    this._plot = plot;
    tip = new Tooltip(plot, this._options.xLabel);
    this._legend.build(made.entries, made.right, made.note, (entry, shown) => {
      for (const i of entry.series) plot.setSeries(i, { show: shown });
    });
  }

  private _range(plot: uPlot, scale: string, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (this._options.fromZero) return room(low, high, true);
    return room(...reach(plot, scale, low, high), false);
  }

  private _noteZoom(zoomed: boolean): void {
    this._zoomed = zoomed;
    this._legend.offerReset(zoomed);
  }

  private _resetZoom(): void {
    this._noteZoom(false);
    if (this._plot) this._plot.setData(this._plot.data, true);
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
