import type { History, Tick } from "./protocol";
import { Run } from "./run";
import { View } from "./view";

interface Model {
  get(name: "history"): History;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback: (...args: never[]) => void): void;
}

/** anywidget's hooks. A model and its views get different faces of it, so the run hangs on its data. */
const runs = new Map<string, Run>();
const keyOf = (model: Model) => (model as unknown as { get(name: string): string }).get("key");

function initialize({ model }: { model: Model }): () => void {
  const run = new Run();
  const key = keyOf(model);
  runs.set(key, run);
  run.recall(model.get("history"));
  const onTick = (tick: Tick, buffers: DataView[]) => run.tick(tick, buffers);
  const onHistory = () => run.recall(model.get("history"));
  model.on("msg:custom", onTick);
  model.on("change:history", onHistory);
  return () => {
    model.off("msg:custom", onTick);
    model.off("change:history", onHistory);
    runs.delete(key);
  };
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const view = new View(runs.get(keyOf(model)) as Run);
  el.append(view.node);
  return () => view.dispose();
}

export default { initialize, render };
