import type { Entry } from "./series";

/** The names of a chart's lines; each shows or hides its line. */
export class Legend {
  readonly node = document.createElement("div");
  private _hidden = new Set<string>();
  private _reset = document.createElement("button");

  constructor(
    private _title: string,
    resetZoom: () => void,
  ) {
    this.node.className = "nbd-legend";
    this._reset.type = "button";
    this._reset.className = "nbd-entry nbd-reset";
    this._reset.textContent = "Reset zoom";
    this._reset.hidden = true;
    this._reset.onclick = resetZoom;
  }

  /** Name these entries; `toggle` is told at once about those that are hidden already. */
  build(
    entries: Entry[],
    twoSided: boolean,
    note: string,
    toggle: (entry: Entry, shown: boolean) => void,
  ): void {
    const title = document.createElement("span");
    title.className = "nbd-chart-title";
    title.textContent = this._title;
    const told = document.createElement("span");
    told.textContent = note;
    const buttons = entries.map((e) => this._button(e, twoSided, toggle));
    this.node.replaceChildren(title, ...buttons, told, this._reset);
  }

  isShown(entry: Entry): boolean {
    return !this._hidden.has(entry.label);
  }

  offerReset(zoomed: boolean): void {
    this._reset.hidden = !zoomed;
  }

  private _button(
    entry: Entry,
    twoSided: boolean,
    toggle: (entry: Entry, shown: boolean) => void,
  ): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "nbd-entry";
    button.title = "Show or hide";
    const key = document.createElement("span");
    key.className = entry.dash ? "nbd-key nbd-dashed" : "nbd-key";
    key.style.borderTopColor = entry.colour;
    const [before, after] = !twoSided ? ["", ""] : entry.side === "right" ? ["", " →"] : ["← ", ""];
    button.append(key, before + entry.label + after);
    button.setAttribute("aria-pressed", String(this.isShown(entry)));
    if (!this.isShown(entry)) toggle(entry, false);
    button.onclick = () => {
      if (!this._hidden.delete(entry.label)) this._hidden.add(entry.label);
      button.setAttribute("aria-pressed", String(this.isShown(entry)));
      toggle(entry, this.isShown(entry));
    };
    return button;
  }
}
