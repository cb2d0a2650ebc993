/** What the kernel sends: see stream.py and state.py. */

export interface RunState {
  title: string;
  status: "running" | "finished";
  facts: string[];
  values: [name: string, text: string][];
  /** The part that is done, 0 to 1; null where nobody knows. */
  fraction: number | null;
}

export interface TableHead {
  name: string;
  kind: "metric" | "rate";
  version: number;
  /** How many of its first rows the receiver keeps. */
  at: number;
  rows: number;
  columns: string[];
}

export interface Tick {
  state: RunState;
  tables: TableHead[];
}

export interface History {
  state: RunState;
  tables: (TableHead & { data: DataView })[];
}

/** Read float64 columns, x first. */
export function decode(head: TableHead, view: DataView): Float64Array[] {
  // The view may start anywhere in its buffer; a Float64Array may not.
  const start = view.byteOffset;
  const all = new Float64Array(view.buffer.slice(start, start + view.byteLength));
  return Array.from({ length: head.columns.length + 1 }, (_, i) =>
    all.subarray(i * head.rows, (i + 1) * head.rows),
  );
}
