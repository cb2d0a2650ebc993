import type { RunState } from "./protocol";

/** Title, state, progress and the last values, all as text. */
export class Header {
  readonly node = document.createElement("header");
  private _title = element("span", "nbd-title");
  private _status = element("span", "nbd-status");
  private _facts = element("span", "nbd-facts");
  private _bar = element("div", "nbd-bar");
  private _done = element("div", "nbd-done");
  private _values = element("div", "nbd-values");

  constructor() {
    this.node.className = "nbd-head";
    const line = element("div", "nbd-line");
    line.append(this._title, this._status, this._facts);
    this._bar.setAttribute("role", "progressbar");
    this._bar.setAttribute("aria-label", "Progress of the run");
    this._bar.setAttribute("aria-valuemin", "0");
    this._bar.setAttribute("aria-valuemax", "100");
    this._bar.append(this._done);
    this.node.append(line, this._bar, this._values);
  }

  show(state: RunState): void {
    this._title.textContent = state.title;
    this._status.textContent = state.status;
    this._status.dataset.status = state.status;
    this._facts.textContent = state.facts.join(" · ");
    this._bar.hidden = state.fraction === null;
    if (state.fraction !== null) {
      const percent = Math.round(100 * state.fraction);
      this._done.style.width = `${100 * state.fraction}%`;
      this._bar.setAttribute("aria-valuenow", String(percent));
      this._bar.setAttribute("aria-valuetext", `${percent} %, ${state.facts.join(", ")}`);
    }
    this._showValues(state.values);
  }

  private _showValues(values: [string, string][]): void {
    while (this._values.childElementCount > values.length) this._values.lastElementChild?.remove();
    values.forEach(([name, text], i) => {
      let pair = this._values.children[i];
      if (!pair) {
        pair = element("div", "nbd-pair");
        pair.append(element("span", "nbd-name"), element("span", "nbd-value"));
        this._values.append(pair);
      }
      pair.children[0].textContent = name;
      pair.children[1].textContent = text;
    });
  }
}

function element(tag: string, className: string): HTMLElement {
  const made = document.createElement(tag);
  if (className) made.className = className;
  return made;
}
