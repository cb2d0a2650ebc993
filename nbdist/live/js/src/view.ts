import { Chart } from "./chart";
import { Header } from "./header";
import type { Run, Table } from "./run";
import { readTheme, sameTheme, watchTheme, type Theme } from "./theme";

/** A run on the page: header, metrics to the left, throughput to the right. */
export class View {
  readonly node = document.createElement("div");
  private _header = new Header();
  private _charts = document.createElement("div");
  private _metrics: Chart | null = null;
  private _rates: Chart | null = null;
  private _theme: Theme | null = null;
  private _frame = 0;
  private _stop: (() => void)[];

  constructor(private _run: Run) {
    this.node.className = "nbd-live";
    this.node.setAttribute("role", "figure");
    this._charts.className = "nbd-charts";
    this.node.append(this._header.node, this._charts);
    this._stop = [
      _run.onChange(() => this._drawSoon()),
      watchTheme(() => {
        if (this._theme && !sameTheme(this._theme, readTheme(this.node))) this._drawSoon();
      }),
    ];
    this._drawSoon();
  }

  dispose(): void {
    cancelAnimationFrame(this._frame);
    for (const stop of this._stop) stop();
    this._metrics?.dispose();
    this._rates?.dispose();
  }

  /** However many messages come, draw once a frame. */
  private _drawSoon(): void {
    cancelAnimationFrame(this._frame);
    this._frame = requestAnimationFrame(() => this._draw());
  }

  private _draw(): void {
    const state = this._run.state;
    if (!state || !this.node.isConnected) return;
    this.node.setAttribute("aria-label", `Live curves: ${state.title}`);
    this._header.show(state);
    this._theme = readTheme(this.node);
    const tables = [...this._run.tables.values()].filter((t) => t.x.length > 0);
    const metrics = tables.filter((t) => t.kind === "metric");
    const rates = tables.filter((t) => t.kind === "rate");
    this._metrics = this._drawChart(this._metrics, metrics, () => ({ title: "", xLabel: "step", fromZero: false }));
    this._rates = this._drawChart(this._rates, rates, () => ({
      title: "examples/s",
      xLabel: "seconds",
      fromZero: true,
    }));
  }

  private _drawChart(
    chart: Chart | null,
    tables: Table[],
    options: () => ConstructorParameters<typeof Chart>[0],
  ): Chart | null {
    if (!tables.length) return chart;
    if (!chart) {
      chart = new Chart(options());
      // Metrics stay to the left, even if the throughput came first.
      if (tables[0].kind === "metric") this._charts.prepend(chart.node);
      else this._charts.append(chart.node);
    }
    chart.draw(tables, this._theme as Theme);
    return chart;
  }
}
