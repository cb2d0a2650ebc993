import { decode, type History, type RunState, type TableHead, type Tick } from "./protocol";

/** The rows of a metric, or of the throughput, as far as they have arrived. */
export class Table {
  x: number[] = [];
  values: (number | null)[][] = [];
  private _version = -1;

  constructor(
    readonly name: string,
    readonly kind: "metric" | "rate",
    public columns: string[],
  ) {}

  /** Take rows; return false if they do not fit behind those that are here. */
  patch(head: TableHead, view: DataView): boolean {
    if (head.at > 0 && (head.version !== this._version || head.at > this.x.length)) {
      return false;
    }
    const [x, ...values] = decode(head, view);
    if (head.at === 0) {
      this.columns = head.columns;
      this.values = head.columns.map(() => []);
    }
    this._version = head.version;
    this.x.length = head.at;
    for (const value of x) this.x.push(value);
    values.forEach((column, i) => {
      const mine = this.values[i];
      mine.length = head.at;
      // uPlot draws a gap at null.
      for (const value of column) mine.push(Number.isNaN(value) ? null : value);
    });
    return true;
  }
}

/** One run: its tables and its header. Views listen to it. */
export class Run {
  readonly tables = new Map<string, Table>();
  state: RunState | null = null;
  private _listeners = new Set<() => void>();
  private _behind = true;

  onChange(listener: () => void): () => void {
    this._listeners.add(listener);
    return () => this._listeners.delete(listener);
  }

  tick(tick: Tick, buffers: DataView[]): void {
    this.state = tick.state;
    tick.tables.forEach((head, i) => {
      if (!this._table(head).patch(head, buffers[i])) this._behind = true;
    });
    this._tell();
  }

  /** Take the short copy of the run, unless everything it says is known already. */
  recall(history: History): void {
    if (!history.state) return;
    this.state = history.state;
    if (this._behind) {
      this._behind = false;
      for (const head of history.tables) this._table(head).patch(head, head.data);
    }
    this._tell();
  }

  private _table(head: TableHead): Table {
    const key = `${head.kind}:${head.name}`;
    let table = this.tables.get(key);
    if (!table) {
      table = new Table(head.name, head.kind, head.columns);
      this.tables.set(key, table);
    }
    return table;
  }

  private _tell(): void {
    for (const listener of this._listeners) listener();
  }
}
